"""The protobuf messages load without grpcio, and live beside tritonclient in one process."""

import subprocess
import sys
import textwrap


def _run(program):
    """In a fresh process, because what is loaded stays loaded."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_they_need_no_grpcio():
    _run(
        """
        import sys
        sys.modules["grpc"] = None  # importing it raises
        from trilith.wire.oip_messages import model_config_messages, service_messages
        assert service_messages().ModelInferRequest(model_name="m").model_name == "m"
        assert model_config_messages().ModelConfig(max_batch_size=4).max_batch_size == 4
        assert not [name for name in sys.modules if name.startswith("tritonclient")]
        """
    )


def test_tritonclient_may_come_later_and_has_the_same_classes():
    _run(
        """
        from trilith.wire.oip_messages import service_messages
        ours = service_messages()
        import tritonclient.grpc
        assert tritonclient.grpc.service_pb2.ModelInferRequest is ours.ModelInferRequest
        assert ours.ModelConfigResponse().config.__class__ is tritonclient.grpc.model_config_pb2.ModelConfig
        """
    )


def test_tritonclient_may_come_first_and_threads_may_race():
    _run(
        """
        import concurrent.futures
        import tritonclient.grpc
        from trilith.wire.oip_messages import service_messages
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            loaded = [future.result() for future in [pool.submit(service_messages) for _ in range(8)]]
        assert {module.ModelInferRequest for module in loaded} == {tritonclient.grpc.service_pb2.ModelInferRequest}
        """
    )

"""Unmodified `model.py` files in a `Runtime`."""

import asyncio
import re

import numpy as np
import pytest
from python_models import ADD_SUB, ADD_SUB_PBTXT, ECHO, HEAD, ask, echo_with, row, write_model
from waiting import until

from trilith.errors import InvalidInput, ModelError, NotFound
from trilith.runtime import InferRequest, Runtime


def test_add_sub_as_its_repository_has_it(repository, run):
    write_model(repository, "add_sub", ADD_SUB, pbtxt=ADD_SUB_PBTXT)

    async def main():
        async with Runtime(repository) as runtime:
            assert runtime.ready
            await until(lambda: runtime.statistics()[0].alive == 2)
            handle = runtime.model("add_sub")
            assert (handle.max_batch_size, handle.backend) == (8, "python")
            answers = await asyncio.gather(
                *(
                    runtime.infer(
                        InferRequest(model="add_sub", inputs={"INPUT0": row(n, 2, 3, 4), "INPUT1": row(1, 1, 1, 1)})
                    )
                    for n in range(20)
                )
            )
            for n, answer in enumerate(answers):
                assert answer.outputs["OUTPUT0"].tolist() == [[n + 1, 3, 4, 5]]
                assert answer.outputs["OUTPUT1"].tolist() == [[n - 1, 1, 2, 3]]
            [alone] = (
                await runtime.infer(
                    InferRequest(
                        model="add_sub",
                        inputs={"INPUT0": row(1, 2, 3, 4), "INPUT1": row(1, 1, 1, 1)},
                        outputs=("OUTPUT1",),
                    )
                )
            ).outputs
            assert alone == "OUTPUT1"
            statistics = runtime.statistics("add_sub")[0]
            assert statistics.success.count == 21
            assert [batch.batch_size for batch in statistics.batches] == [1]  # no dynamic batching was asked for

    run(main())


def test_a_model_completes_its_configuration(repository, run):
    write_model(repository, "echo", ECHO)

    async def main():
        async with Runtime(repository) as runtime:
            handle = runtime.model("echo")
            assert handle.max_batch_size == 4
            assert [(spec.name, spec.shape) for spec in handle.inputs] == [("x", (-1, -1))]
            config = handle.config_proto()
            assert config.max_batch_size == 4
            assert config.HasField("dynamic_batching")
            assert (await runtime.infer(ask("echo", 1, 2, 3))).outputs["y"].tolist() == [[1, 2, 3]]
            with pytest.raises(InvalidInput, match="unexpected inference input 'z'"):
                await runtime.infer(InferRequest(model="echo", inputs={"z": row(1)}))

    run(main())


def test_requests_of_different_shapes_come_as_they_are(repository, run):
    """Batched together or not: each request has its own shape and its own answer."""
    write_model(repository, "echo", echo_with(run="return x * len(x[0])"))

    async def main():
        async with Runtime(repository) as runtime:
            answers = await asyncio.gather(*(runtime.infer(ask("echo", *range(n))) for n in range(1, 12)))
            for n, answer in enumerate(answers, 1):
                assert answer.outputs["y"].tolist() == [[value * n for value in range(n)]]

    run(main())


def test_every_input_may_be_left_out(repository, run):
    source = f"""{HEAD}
class TritonPythonModel:
    def execute(self, requests):
        given = [[tensor.name() for tensor in request.inputs()] for request in requests]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("n", np.array([[len(names)]], np.int32))]) for names in given
        ]
"""
    inputs = ", ".join(f'{{ name: "{name}" data_type: TYPE_FP32 dims: [ 1 ] optional: true }}' for name in "ab")
    output = 'output { name: "n" data_type: TYPE_INT32 dims: [ 1 ] }'
    write_model(repository, "m", source, pbtxt=f'backend: "python" max_batch_size: 4 input [ {inputs} ] {output}')

    async def main():
        async with Runtime(repository) as runtime, asyncio.timeout(20):
            for inputs in ({}, {"b": row(1)}, {"a": row(1), "b": row(1)}, {}):
                answer = await runtime.infer(InferRequest(model="m", inputs=inputs))
                assert answer.outputs["n"].tolist() == [[len(inputs)]]

    run(main())


def test_a_model_gets_and_gives_what_its_configuration_reshapes(repository, run):
    source = f"""{HEAD}
class TritonPythonModel:
    def execute(self, requests):
        found = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("y", x), pb_utils.Tensor("n", np.array(x.shape[:1], np.int32))])
            for x in found
            if x.shape[1:] == (2, 2)
        ]
"""
    tensor = "data_type: TYPE_FP32 dims: [ 4 ] reshape { shape: [ 2, 2 ] }"
    number = 'output { name: "n" data_type: TYPE_INT32 dims: [ 1 ] reshape { shape: [ ] } }'
    pbtxt = (
        f'backend: "python" max_batch_size: 4 input {{ name: "x" {tensor} }} output {{ name: "y" {tensor} }} {number}'
    )
    write_model(repository, "m", source, pbtxt=pbtxt)

    async def main():
        async with Runtime(repository) as runtime, asyncio.timeout(20):
            answer = await runtime.infer(InferRequest(model="m", inputs={"x": row(1, 2, 3, 4)}))
            assert answer.outputs["y"].tolist() == [[1, 2, 3, 4]]
            assert answer.outputs["n"].tolist() == [[1]]

    run(main())


def test_one_request_fails_and_the_others_do_not(repository, run):
    """A batch of requests, of which one is answered with an error of its own."""
    body = """
    x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
    if x[0, 0] < 0:
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("no such row", pb_utils.TritonError.NOT_FOUND))
    return pb_utils.InferenceResponse([pb_utils.Tensor("y", x)], parameters={"kept": True})
    """
    write_model(repository, "echo", echo_with(answer=body))

    async def main():
        async with Runtime(repository) as runtime:
            asked = [runtime.infer(ask("echo", value)) for value in (1, -1, 2, -2, 3)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(answer) for answer in answers[1::2]] == [NotFound, NotFound]
            assert [str(answer) for answer in answers[1::2]] == ["no such row", "no such row"]
            assert [answer.outputs["y"].tolist() for answer in answers[::2]] == [[[1]], [[2]], [[3]]]
            assert answers[0].parameters == {"kept": True}
            assert (runtime.statistics()[0].success.count, runtime.statistics()[0].fail.count) == (3, 2)

    run(main())


AT = r"\n\nAt:\n  echo/1/model\.py\(\d+\): execute"
ONCE = """

class TritonPythonModel(Echo):
    seen = False

    def {method}(self, {arguments}):
        if not self.seen:
            self.seen = True
            {body}
        return Echo.{method}(self, {arguments})
"""


@pytest.mark.parametrize(
    ("method", "body", "words"),
    [
        (
            "execute",
            "raise ValueError('no luck')",
            rf"Failed to process the request\(s\) for model 'echo', message: ValueError: no luck{AT}",
        ),
        ("execute", "return None", "Expected a list in the execute return"),
        ("execute", "return []", r"InferenceRequest\(s\) size is:1, and InferenceResponse\(s\) size is:0"),
        ("execute", "return [7]", "Expected an 'InferenceResponse' object in the execute function return list"),
        ("answer", "return pb_utils.InferenceResponse([])", "lacks 'y'"),
        ("run", "return x.astype(np.float64)", "output 'y' has datatype FP64, and the configuration says FP32"),
        ("run", "return x[0]", r"output 'y' has shape \[1\] for a request of 1 rows"),
        ("run", "return np.concatenate([x, x])", r"output 'y' has shape \[2, 1\]"),
        ("run", "return x.astype(complex)", "complex128"),
        ("run", "sys.exit(3)", "SystemExit: 3"),
        ("run", "request.exec()", "not supported"),
    ],
)
def test_what_a_model_does_wrong_is_one_clear_error(repository, run, method, body, words):
    arguments = {"execute": "requests", "answer": "request", "run": "x, request"}[method]
    echo = echo_with().replace("class TritonPythonModel", "class Echo")
    write_model(repository, "echo", echo + ONCE.format(method=method, arguments=arguments, body=body))

    async def main():
        async with Runtime(repository) as runtime:
            with pytest.raises(ModelError, match=words):
                await runtime.infer(ask("echo", 1))
            assert (await runtime.infer(ask("echo", 1))).outputs["y"].tolist() == [[1]]  # and it goes on

    run(main())


def test_an_async_execute_and_asyncio_inside_one(repository, run):
    body = """
    import asyncio

    async def later():
        await asyncio.sleep(0)
        return x + 1

    return asyncio.run(later())
    """
    write_model(repository, "inside", echo_with(run=body))
    asynchronous = echo_with().replace("    def execute(self, requests):", "    async def execute(self, requests):")
    write_model(repository, "outside", asynchronous)

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(ask("inside", 1))).outputs["y"].tolist() == [[2]]
            assert (await runtime.infer(ask("outside", 1))).outputs["y"].tolist() == [[1]]

    run(main())


def test_what_a_request_brings_arrives(repository, run):
    body = """
    parameters = json.loads(request.parameters())
    said = json.dumps([request.request_id(), request.timeout(), parameters, request.correlation_id(),
                       request.requested_output_names(), request.is_cancelled()])
    pb_utils.Logger.log_info(said)
    return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros((1, 1), np.float32))], parameters={"said": said})
    """
    write_model(repository, "echo", echo_with(answer=body))

    async def main():
        async with Runtime(repository) as runtime:
            parameters = {"color": "red"}
            request = ask("echo", 1, id="the id", parameters=parameters, timeout_us=30_000_000)
            answer = await runtime.infer(request)
            assert answer.parameters["said"] == '["the id", 30000000, {"color": "red"}, 0, ["y"], false]'

    run(main())


def test_text_and_every_number_survive(repository, run):
    source = (
        HEAD
        + """

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        for word in ("BOOL", "UINT8", "INT64", "FP16", "FP64", "STRING", "BF16"):
            config.add_input({"name": word, "data_type": "TYPE_" + word, "dims": [-1]})
            config.add_output({"name": word + "_out", "data_type": "TYPE_" + word, "dims": [-1]})
        return config

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([
                pb_utils.Tensor.from_dlpack(tensor.name() + "_out", tensor) if tensor.name() == "BF16"
                else pb_utils.Tensor(tensor.name() + "_out", tensor.as_numpy())
                for tensor in request.inputs()
            ])
            for request in requests
        ]
"""
    )
    torch = pytest.importorskip("torch")
    source = source.replace(
        'pb_utils.Tensor.from_dlpack(tensor.name() + "_out", tensor)',
        "pb_utils.Tensor.from_dlpack(tensor.name() + \"_out\", __import__('torch').from_dlpack(tensor) * 2)",
    )
    write_model(repository, "all", source)
    bf16 = torch.tensor([1.5, 2.0], dtype=torch.bfloat16)
    inputs = {
        "BOOL": np.array([True, False]),
        "UINT8": np.array([1, 255], np.uint8),
        "INT64": np.array([-1, 2**62], np.int64),
        "FP16": np.array([1.5, -2], np.float16),
        "FP64": np.array([1e300], np.float64),
        "STRING": np.array([b"\x00a\x00", "é".encode(), b""], object),
        "BF16": bf16.view(torch.int16).numpy().view(np.uint16),
    }

    async def main():
        async with Runtime(repository) as runtime:
            answer = await runtime.infer(InferRequest(model="all", inputs=inputs))
            for name, array in inputs.items():
                if name != "BF16":
                    assert answer.outputs[f"{name}_out"].tolist() == array.tolist()
            doubled = torch.from_numpy(answer.outputs["BF16_out"].copy().view(np.int16)).view(torch.bfloat16)
            assert torch.equal(doubled, bf16 * 2)

    run(main())


def test_large_tensors_come_and_go_unchanged(repository, run):
    write_model(repository, "echo", echo_with(run="return x[:, ::-1]"))

    async def main():
        async with Runtime(repository) as runtime:
            array = np.arange(3 << 20, dtype=np.float32)[None]  # 12 MB
            answers = await asyncio.gather(
                *(runtime.infer(InferRequest(model="echo", inputs={"x": array + n})) for n in range(6))
            )
            for n, answer in enumerate(answers):
                np.testing.assert_array_equal(answer.outputs["y"], (array + n)[:, ::-1])

    run(main())


def test_an_input_may_be_left_out_where_the_model_says_so(repository, run):
    optional = """        config.add_input({"name": "bias", "data_type": "TYPE_FP32", "dims": [1], "optional": True})
        config.add_output"""
    body = """
    bias = pb_utils.get_input_tensor_by_name(request, "bias")
    return x if bias is None else x + bias.as_numpy()
    """
    write_model(repository, "echo", echo_with(run=body).replace("        config.add_output", optional, 1))

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(ask("echo", 1))).outputs["y"].tolist() == [[1]]
            both = InferRequest(model="echo", inputs={"x": row(1), "bias": row(5)})
            assert (await runtime.infer(both)).outputs["y"].tolist() == [[6]]

    run(main())


WARM = """
backend: "python"
model_warmup { name: "two" count: 2 batch_size: 1
  inputs { key: "x" value { data_type: TYPE_FP32 dims: [ 3 ] zero_data: true } } }
"""


def test_a_model_is_warmed_before_it_serves(repository, run, tmp_path):
    witness = tmp_path / "witness"
    body = f"""
    with open({str(witness)!r}, "a") as file:
        file.write(str(x.shape))
    return x
    """
    write_model(repository, "echo", echo_with(run=body), pbtxt=WARM)
    write_model(repository, "bad", echo_with(run="raise ValueError('cold')"), pbtxt=WARM)

    async def main():
        async with Runtime(repository) as runtime:
            assert witness.read_text() == "(1, 3)(1, 3)"
            assert (await runtime.infer(ask("echo", 1))).outputs["y"].tolist() == [[1]]
            assert "failed to run warmup sample 'two'" in runtime.model("bad").reason
            assert "ValueError: cold" in runtime.model("bad").reason

    run(main())


def test_a_model_finalizes_when_it_is_unloaded(repository, run, tmp_path):
    witness = tmp_path / "witness"
    write_model(repository, "echo", echo_with(finalize=f"open({str(witness)!r}, 'w').write('done')"))

    async def main():
        async with Runtime(repository) as runtime:
            await runtime.infer(ask("echo", 1))
            await runtime.unload("echo")
            assert witness.read_text() == "done"

    run(main())


def test_files_beside_a_model_can_be_imported(repository, run):
    folder = write_model(repository, "echo", echo_with(run="import helper\nreturn x * helper.FACTOR"))
    (folder / "1" / "helper.py").write_text("FACTOR = 3\n")

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(ask("echo", 2))).outputs["y"].tolist() == [[6]]

    run(main())


def test_two_versions_are_two_models(repository, run):
    write_model(repository, "echo", echo_with(run="return x + 1"), yaml="backend: python\nversions: all\n")
    (repository / "echo" / "2").mkdir()
    (repository / "echo" / "2" / "model.py").write_text(echo_with(run="return x + 2"))

    async def main():
        async with Runtime(repository) as runtime:
            for version, expected in (("1", 1), ("2", 2), ("", 2)):
                answer = await runtime.infer(ask("echo", 0, version=version))
                assert answer.outputs["y"].tolist() == [[expected]]

    run(main())


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("x = (\n", "SyntaxError"),
        ("x = 1\n", "has no class TritonPythonModel"),
        (echo_with(initialize="raise RuntimeError('no weights')"), r"RuntimeError: no weights\n\nAt:\n  .*initialize"),
        (echo_with(initialize="os._exit(5)"), "worker died: exit code 5"),
        (
            echo_with(initialize="print('last words', file=sys.stderr)\nos.kill(os.getpid(), 11)"),
            r"signal 11 \(SIGSEGV\)(.|\n)*last words",
        ),
        (ECHO.replace("config.add_output", "len"), "at least one output"),
        (ECHO.replace("TYPE_FP32", "TYPE_NONSENSE"), "there is no TYPE_NONSENSE"),
        (ECHO.replace("        return config\n", "        return 7\n"), "must return the ModelConfig"),
        (
            ECHO.replace("config.set_dynamic_batching()", "config.set_model_transaction_policy({'decoupled': True})"),
            "not served yet",
        ),
        (ECHO.replace("def execute", "def perform"), "does not implement `execute` method"),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why(repository, run, source, words):
    write_model(repository, "bad", source)
    write_model(repository, "good", ECHO)

    async def main():
        async with Runtime(repository) as runtime:
            handle = runtime.model("bad")
            assert not handle.ready
            assert "model 'bad'" in handle.reason
            assert re.search(words, handle.reason), handle.reason
            assert (await runtime.infer(ask("good", 1))).outputs["y"].tolist() == [[1]]

    run(main())


def test_a_configuration_that_the_model_contradicts(repository, run):
    pbtxt = 'input { name: "x" data_type: TYPE_INT32 dims: [ -1 ] }'
    write_model(repository, "echo", ECHO, pbtxt=pbtxt)

    async def main():
        async with Runtime(repository) as runtime:
            reason = runtime.model("echo").reason
            assert "TYPE_INT32" in reason
            assert "TYPE_FP32" in reason

    run(main())

"""A whole server (HTTP, gRPC, runtime) on a loop of its own in a thread, and the models that it serves."""

import asyncio
import contextlib
import threading

import onnx
import uvloop
from onnx import TensorProto, helper

from trilith.core.tensor import DataType
from trilith.net.grpc import GrpcLimits, GrpcServer
from trilith.net.http1 import HttpLimits, HttpServer
from trilith.runtime import Runtime, RuntimeConfig
from trilith.runtime.protocol import OipGrpc, OipHttp, OipServices, model_source
from trilith.telemetry import Metrics, RequestMetrics
from trilith.telemetry.exposition import CONTENT_TYPE, render
from trilith.wire.oip_options import ProtocolOptions

MAX_BODY_BYTES = 8 << 20


def write_models(root):
    """`identity_TYPE` for every datatype, `batched`, `slow` (200 ms), `slower`, and `affine` in ONNX: A + B, A * B."""
    for datatype in DataType:
        word = "STRING" if datatype is DataType.BYTES else str(datatype)
        _write_identity(root, f"identity_{datatype.lower()}", word, dims="-1", max_batch_size=0)
    _write_identity(root, "batched", "FP32", dims="4", max_batch_size=8)
    _write_identity(root, "slow", "FP32", dims="-1", max_batch_size=0, delay_ms=200)
    _write_identity(root, "slower", "FP32", dims="-1", max_batch_size=0, delay_ms=1500)
    _write_affine(root / "affine")


def _write_identity(root, name, word, *, dims, max_batch_size, delay_ms=0):
    folder = root / name
    (folder / "1").mkdir(parents=True)
    delay = f'parameters {{ key: "execute_delay_ms" value {{ string_value: "{delay_ms}" }} }}' if delay_ms else ""
    (folder / "config.pbtxt").write_text(
        f"""
        backend: "identity"
        max_batch_size: {max_batch_size}
        input {{ name: "INPUT0" data_type: TYPE_{word} dims: [ {dims} ] }}
        output {{ name: "OUTPUT0" data_type: TYPE_{word} dims: [ {dims} ] }}
        {delay}
        """
    )


def _write_affine(folder):
    (folder / "1").mkdir(parents=True)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("A", "B")]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("SUM", "PRODUCT")]
    nodes = [helper.make_node("Add", ["A", "B"], ["SUM"]), helper.make_node("Mul", ["A", "B"], ["PRODUCT"])]
    graph = helper.make_graph(nodes, "affine", values, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "1" / "model.onnx")
    (folder / "config.pbtxt").write_text('backend: "onnxruntime"\nmax_batch_size: 8\ndynamic_batching { }\n')


class OipServer:
    """Addresses of a running server.

    Attributes:
        http: `host:port` of HTTP.
        grpc: `host:port` of gRPC.
        oip_grpc: what answers there.
    """

    def __init__(self):
        self._loop = None
        self._stop = None

    @contextlib.contextmanager
    def running(self, root, options=ProtocolOptions(), *, all_ready=True, **config):  # noqa: B008 - frozen
        started = threading.Event()
        failure = []

        def run():
            try:
                uvloop.run(self._serve(root, options, all_ready, started, RuntimeConfig(**config)))
            except BaseException as error:  # noqa: BLE001 - handed to the test's thread
                failure.append(error)
                started.set()

        thread = threading.Thread(target=run, name="oip-server")
        thread.start()
        started.wait(30)
        try:
            if failure:
                raise failure[0]
            yield self
        finally:
            if not failure:
                self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(30)
        if failure:
            raise failure[0]

    async def _serve(self, root, options, all_ready, started, config):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        metrics = Metrics()
        requests = RequestMetrics(metrics)
        async with Runtime(root, config=config) as runtime:
            assert all_ready is None or runtime.ready == all_ready, runtime.models()
            metrics.add_source(model_source(runtime))
            oip = OipHttp(runtime, metrics=requests, options=options)

            def answer(request):
                if request.path != "/metrics":
                    return oip(request)
                return request.respond(200, render(metrics), content_type=CONTENT_TYPE)

            http = HttpServer(answer, limits=HttpLimits(max_body_bytes=MAX_BODY_BYTES), error_form=oip.error_form)
            self.oip_grpc = OipGrpc(runtime, metrics=requests, options=options)
            services = OipServices(self.oip_grpc, runtime)
            limits = GrpcLimits(max_message_bytes=MAX_BODY_BYTES)
            grpc = GrpcServer(services, streaming=services.streaming, limits=limits)
            await http.start()
            await grpc.start()
            self.http = "{}:{}".format(*http.addresses[0])
            self.grpc = "{}:{}".format(*grpc.addresses[0])
            started.set()
            await self._stop.wait()
            await http.drain(2.0)
            await grpc.drain(2.0)

"""A runtime, an HTTP request and a gRPC call without sockets, threads or time."""

import asyncio
from types import MappingProxyType

import numpy as np

from trilith.core.tensor import DataType, TensorSpec
from trilith.core.timeline import INFER, QUEUED, STARTED
from trilith.errors import UnknownModel
from trilith.runtime.load_threads import LoadStatistics
from trilith.runtime.schedule import QueueStatistics
from trilith.runtime.statistics import BatchStatistics, Duration, ModelStatistics
from trilith.wire.grpc_status import grpc_status
from trilith.wire.oip_messages import model_config_messages


class FakeModel:
    version = "1"
    versions = ("1", "2")
    platform = "identity"
    backend = "identity"
    max_batch_size = 8
    state = "READY"
    public_reason = ""
    load_s = 0.25
    metric_tags = MappingProxyType({})
    recovering = False
    namespace = ""
    unloaded = False

    def __init__(self, name="m", datatype=DataType.FP32):
        self.name = name
        self.labels = {}
        self.inputs = (TensorSpec(name="IN", datatype=datatype, shape=(-1, 4)),)
        self.outputs = (TensorSpec(name="OUT", datatype=datatype, shape=(-1, 4)),)

    async def says_ready(self):
        return self.state == "READY"

    def config_proto(self):
        messages = model_config_messages()
        config = messages.ModelConfig(name=self.name, max_batch_size=8)
        config.input.add(name="IN", data_type=messages.TYPE_FP32, dims=[4])
        config.parameters["key"].string_value = "value"
        config.dynamic_batching.max_queue_delay_microseconds = 2**40
        return config


class FakeTicket:
    cancelled = False

    def cancel(self):
        self.cancelled = True


class FakeRepository:
    """Lists what is loaded; notes what it was asked to do. `refuse` is raised then."""

    refuse = None

    def __init__(self, runtime):
        self._runtime = runtime
        self.asked = []
        self.urls = {}

    def hosted(self):
        return self.urls

    async def index(self, *, ready_only):
        entries = []
        for model in self._runtime.models():
            if model.state == "READY" or not ready_only:
                entry = {"version": model.version, "state": model.state, "reason": model.public_reason}
                entries.append({"name": model.name, **entry})
        return entries

    async def load(self, name, parameters):
        self._note("load", name, parameters)

    async def unload(self, name, *, dependents):
        self._note("unload", name, dependents)
        self.urls.pop(name, None)

    def _note(self, *what):
        if self.refuse is not None:
            raise self.refuse
        self.asked.append(what)


class FakeRuntime:
    """Keeps what was submitted; the test answers. `refuse` is raised at submission."""

    ready = True
    refuse = None
    answer_at_once = None

    def __init__(self, *models):
        self.loaded = {model.name: model for model in models or (FakeModel(),)}
        self.submitted = []
        self.repository = FakeRepository(self)
        self.arrived = asyncio.Event()

    def submit(self, request, context, on_done):
        if self.refuse is not None:
            raise self.refuse
        ticket = FakeTicket()
        self.submitted.append((request, context, on_done, ticket))
        self.arrived.set()
        child = context.timeline.child(f"model {request.model}", 1)
        child.stamps = [(QUEUED, 1.0), (STARTED, 1.5), (INFER, 2.0)]
        if self.answer_at_once is not None:
            on_done(self.answer_at_once)
        return ticket

    def model(self, name, version=""):
        if name not in self.loaded or version not in ("", "1"):
            raise UnknownModel(f"Request for unknown model: '{name}' is not found")
        return self.loaded[name]

    def models(self):
        return list(self.loaded.values())

    def absent(self, name):
        return False

    async def obtainable(self, name):
        return False

    def seems_obtainable(self, name):
        return False

    def load_statistics(self):
        return LoadStatistics(waiting=3, running=2, left_behind=1)

    def model_metrics(self):
        return []

    def statistics(self, name=None):
        return [model_statistics(found) for found in self.loaded if name in (None, found)]


def model_statistics(name):
    duration = Duration(count=2, ns=3_000_000_000)
    return ModelStatistics(
        name=name,
        version="1",
        last_inference_ms=1234,
        inference_count=5,
        execution_count=2,
        success=duration,
        fail=Duration(count=4, ns=1),
        queue=duration,
        compute_input=duration,
        compute_infer=duration,
        compute_output=duration,
        batches=(
            BatchStatistics(batch_size=4, compute_input=duration, compute_infer=duration, compute_output=duration),
        ),
        cancelled=1,
        expired=1,
        refused=2,
        retries=0,
        running=1,
        waiting=QueueStatistics(
            waiting_items=1,
            waiting_rows=2,
            lanes=1,
            added=3,
            refused=2,
            dispatched=2,
            batches=2,
            cancelled=0,
            expired=0,
            cleared=0,
        ),
    )


class FakeHttpRequest:
    """Records the answer. With `late` the body arrives only through `await body()`."""

    def __init__(self, method, path, body=b"", *, headers=(), late=False):
        self.method = method
        self.path = path
        self.query = ""
        self.headers = list(headers)
        self.received_at = 0.5
        self.request_id = "http-id"
        self.complete = not late
        self.refusal = None
        self.binary_form = b""
        self.on_disconnect = None
        self.status = None
        self._body = body

    def header(self, name):
        return dict(self.headers).get(name)

    def body_nowait(self):
        return self._body

    def let_body_go(self):
        self._body = None

    async def body(self, limit=None):
        await asyncio.sleep(0)
        if isinstance(self._body, Exception):
            raise self._body
        return self._body

    def respond(self, status, body=b"", *, content_type=b"application/json", headers=()):
        assert self.status is None, "answered twice"
        self.status, self.answer, self.content_type = status, bytes(body), content_type
        self.answer_headers = dict(headers)


class FakeGrpcCall:
    """Records the answer."""

    def __init__(self, method, message=b"", *, metadata=(), deadline=None):
        self.path = b"/inference.GRPCInferenceService/" + method if b"/" not in method else method
        self.message = message if isinstance(message, bytes) else message.SerializeToString()
        self.metadata = list(metadata)
        self.deadline = deadline
        self.received_at = 0.5
        self.request_id = "grpc-id"
        self.on_cancel = None
        self.identity = None
        self.allows_model = None
        self.compression = None
        self.status = None
        self.error = None

    def header(self, name):
        return dict(self.metadata).get(name)

    def accepts(self, encoding):
        return encoding in (self.header(b"grpc-accept-encoding") or b"").split(b",")

    def reply(self, message, *, trailers=()):
        assert self.status is None, "answered twice"
        self.status, self.answer, self.trailers = "OK", message, dict(trailers)

    def fail(self, status, message, *, trailers=()):
        assert self.status is None, "answered twice"
        self.status, self.error, self.trailers = status.name, message, dict(trailers)

    def fail_error(self, error):
        self.fail(grpc_status(error), error.message)


class FakeClock:
    def __init__(self):
        self.instant = 1.0

    def now(self):
        return self.instant


FLOATS = np.array([[1.0, 2.5, 3.25, 0.5]], np.float32)

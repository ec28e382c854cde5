"""The HTTP application: routes, answers, errors, cancellation, metrics; over fakes."""

import asyncio
import json

import numpy as np
import pytest
from oip_fakes import FLOATS, FakeClock, FakeHttpRequest, FakeModel, FakeRuntime

from trilith.core.request import InferResponse
from trilith.errors import DeadlineExceeded, InvalidInput, ModelError, PayloadTooLarge, QueueFull, QueueTimeout
from trilith.runtime import ModelSpec
from trilith.runtime.handle import ModelHandle
from trilith.runtime.life import ModelEvent
from trilith.runtime.protocol import OipHttp, model_source
from trilith.runtime.protocol.routes import route_of
from trilith.telemetry import Metrics, RequestMetrics, TimelineShelf
from trilith.telemetry.exposition import render

BODY = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.5, 3.25, 0.5]}]}
PATH = "/v2/models/m/infer"


@pytest.fixture
def runtime():
    return FakeRuntime()


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def app(runtime, metrics):
    return OipHttp(runtime, metrics=RequestMetrics(metrics), clock=FakeClock())


def _get(app, path, method="GET"):
    request = FakeHttpRequest(method, path)
    if (late := app(request)) is not None:
        asyncio.run(late)
    return request.status, json.loads(request.answer)


def _infer(app, body=None, **options):
    request = FakeHttpRequest("POST", PATH, json.dumps(BODY if body is None else body).encode(), **options)
    assert app(request) is None
    return request


def _answer(runtime, index=-1):
    request, _, on_done, _ = runtime.submitted[index]
    on_done(InferResponse(model="m", version="1", id=request.id, outputs={"OUT": FLOATS}))


def _counts(metrics):
    (snapshot,) = [found for found in metrics.collect() if found.name == "trilith_oip_requests_total"]
    return dict(snapshot.samples)


def _in_flight(metrics):
    (snapshot,) = [found for found in metrics.collect() if found.name == "trilith_oip_requests_in_flight"]
    return snapshot.samples[0][1]


def test_server_metadata(app):
    status, answer = _get(app, "/v2")
    assert status == 200
    assert answer["name"] == "trilith"
    assert "binary_tensor_data" in answer["extensions"]


def test_health(app, runtime):
    assert _get(app, "/v2/health/live") == (200, {"live": True})
    assert _get(app, "/v2/health/ready") == (200, {"ready": True})
    runtime.ready = False
    assert _get(app, "/v2/health/ready") == (400, {"ready": False})


def test_model_ready(app, runtime):
    assert _get(app, "/v2/models/m/ready") == (200, {"name": "m", "ready": True})
    assert _get(app, "/v2/models/unknown/ready")[0] == 400
    runtime.loaded["m"].state = "LOADING"
    status, answer = _get(app, "/v2/models/m/ready")
    assert (status, answer["error"]) == (400, "Model version not ready")


def test_the_platform_is_the_backend_where_there_is_no_other(app, runtime):
    for version in ("", "1"):
        runtime.model("m", version).platform = ""
    assert _get(app, "/v2/models/m")[1]["platform"] == runtime.model("m", "").backend != ""


def test_model_metadata(app):
    expected = {
        "name": "m",
        "versions": ["1", "2"],
        "platform": "identity",
        "inputs": [{"name": "IN", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "OUT", "datatype": "FP32", "shape": [-1, 4]}],
    }
    assert _get(app, "/v2/models/m") == (200, expected)
    assert _get(app, "/v2/models/m/versions/1") == (200, expected)


def test_model_config_prints_defaults_names_and_numbers(app):
    status, answer = _get(app, "/v2/models/m/config")
    assert status == 200
    assert answer["max_batch_size"] == 8
    assert answer["input"][0]["data_type"] == "TYPE_FP32"
    assert answer["input"][0]["format"] == "FORMAT_NONE"
    assert answer["input"][0]["dims"] == [4]
    assert answer["output"] == []
    assert answer["parameters"] == {"key": {"string_value": "value"}}
    assert answer["dynamic_batching"]["max_queue_delay_microseconds"] == 2**40
    assert "sequence_batching" not in answer


def test_statistics(app):
    status, answer = _get(app, "/v2/models/m/stats")
    (found,) = answer["model_stats"]
    assert status == 200
    assert found["inference_stats"]["success"] == {"count": 2, "ns": 3_000_000_000}
    assert found["batch_stats"][0]["batch_size"] == 4
    assert found["last_inference"] == 1234
    assert _get(app, "/v2/models/stats") == (status, answer)
    assert _get(app, "/v2/models/x/stats")[0] == 404


@pytest.mark.parametrize(("body", "count"), [(b"", 2), (b'{"ready":true}', 1), (b'{"ready":false}', 2)])
def test_repository_index(runtime, app, body, count):
    runtime.loaded["other"] = FakeModel("other")
    runtime.loaded["other"].state = "UNAVAILABLE"
    request = FakeHttpRequest("POST", "/v2/repository/index", body)
    asyncio.run(app(request))
    assert request.status == 200
    index = json.loads(request.answer)
    assert len(index) == count
    assert index[0] == {"name": "m", "version": "1", "state": "READY", "reason": ""}


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([], ""),
        ([ModelEvent.LOADED], ""),
        ([ModelEvent.LOADED, ModelEvent.RETIRED], ""),
        ([ModelEvent.LOADED, ModelEvent.RETIRED, ModelEvent.UNLOADED], "unloaded"),
        ([ModelEvent.LOADED, ModelEvent.STOPPED], "the runtime was stopped"),
        ([ModelEvent.FAILED], "m/1/model.onnx: no such file"),
    ],
)
def test_the_repository_index_names_no_file_of_the_server(runtime, app, events, shown):
    runtime.loaded["m"] = handle = ModelHandle(ModelSpec(name="m"), "1", [])
    for event in events:
        handle.became(event, "/srv/models/m/1/model.onnx: no such file" if event is ModelEvent.FAILED else "")
    request = FakeHttpRequest("POST", "/v2/repository/index")
    asyncio.run(app(request))
    assert json.loads(request.answer)[0]["reason"] == shown


def test_a_wrong_repository_index_body(app):
    for body, text in [(b'{"ready":1}', "Invalid value for 'ready'"), (b"[]", "'ready'"), (b"{", "JSON")]:
        request = FakeHttpRequest("POST", "/v2/repository/index", body)
        asyncio.run(app(request))
        assert request.status == 400
        assert text in json.loads(request.answer)["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/v2/nothing", 404, "Not Found"),
        ("GET", "/v2/models", 404, "Not Found"),
        ("GET", "/v2/models/", 404, "Not Found"),
        ("GET", "/v2/models/m/infer/x", 404, "Not Found"),
        ("GET", "/v2/models/m/versions/x/ready", 404, "a model version is a number"),
        ("GET", "/v2/models/m/versions", 404, "a model version is a number"),
        ("POST", "/v2", 405, "Method Not Allowed"),
        ("GET", PATH, 405, "Method Not Allowed"),
        ("GET", "/v2/models/x", 404, "Request for unknown model"),
        ("GET", "/v2/models/x/config", 404, "Request for unknown model"),
    ],
)
def test_refusals(app, method, path, status, text):
    got, answer = _get(app, path, method)
    assert got == status
    assert text in answer["error"]
    assert answer["request_id"] == "http-id"


def test_a_models_name_is_percent_decoded():
    assert route_of("/v2/models/a%20b%2Fc/versions/12/config").model == "a b/c"
    assert route_of("/v2/models/a/versions/12/config").version == "12"


def test_infer(app, runtime, metrics):
    request = _infer(app)
    assert request.status is None
    assert _in_flight(metrics) == 1
    ((submitted, context, _, _),) = runtime.submitted
    np.testing.assert_array_equal(submitted.inputs["IN"], FLOATS)
    assert (context.request_id, context.deadline) == ("http-id", None)
    _answer(runtime)
    assert request.status == 200
    assert json.loads(request.answer) == {
        "model_name": "m",
        "model_version": "1",
        "outputs": [{"name": "OUT", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.5, 3.25, 0.5]}],
    }
    assert request.answer_headers == {}
    assert _in_flight(metrics) == 0
    assert _counts(metrics) == {("http", "infer", "POST", "200"): 1}


def test_an_answer_that_comes_within_submit(app, runtime):
    runtime.answer_at_once = InferResponse(model="m", version="1", outputs={"OUT": FLOATS})
    assert _infer(app).status == 200


def test_id_timeout_and_timeline(app, runtime):
    body = {**BODY, "id": "own", "parameters": {"timeout": 1_500_000}}
    request = _infer(app, body, headers=[(b"trilith-timeline", b"1")])
    ((submitted, context, _, _),) = runtime.submitted
    assert (context.request_id, context.deadline, submitted.timeout_us) == ("own", None, 1_500_000)
    _answer(runtime)
    assert json.loads(request.answer)["id"] == "own"
    name, floor, stamps, children = json.loads(request.answer_headers[b"trilith-timeline"])
    assert (name, floor) == ("gateway", 3)
    assert [stage for stage, _ in stamps] == ["received", "decoded", "encoded", "answered"]
    assert children[0][0] == "model m"


def test_a_timeline_that_is_too_long_for_a_header_is_kept(runtime):
    shelf = TimelineShelf()
    request = _infer(OipHttp(runtime, timelines=shelf), headers=[(b"trilith-timeline", b"1")])
    context = runtime.submitted[0][1]
    for number in range(200):
        context.timeline.child(f"model number {number} of many", 1).mark("queued", 1.0)
    _answer(runtime)
    [(name, path)] = request.answer_headers.items()
    assert name == b"trilith-timeline-at"
    assert json.loads(shelf.find(path.decode())) == context.timeline.to_builtins()


def test_a_long_body_is_let_go_when_its_tensors_are_made(app, runtime):
    rows = 5_000
    about = {"name": "IN", "datatype": "FP32", "shape": [rows, 4], "parameters": {"binary_data_size": rows * 16}}
    head = json.dumps({"inputs": [about]}).encode()
    head += b" " * (1 - len(head) % 4)  # no view of the body is aligned
    headers = [(b"inference-header-content-length", b"%d" % len(head))]
    request = FakeHttpRequest("POST", PATH, head + bytes(rows * 16), headers=headers)
    assert app(request) is None
    assert len(runtime.submitted) == 1
    assert request.body_nowait() is None


def test_binary_answer(app, runtime):
    request = _infer(app, {**BODY, "parameters": {"binary_data_output": True}})
    _answer(runtime)
    length = int(request.answer_headers[b"inference-header-content-length"])
    assert request.content_type == b"application/octet-stream"
    assert request.answer[length:] == FLOATS.tobytes()
    assert json.loads(request.answer[:length])["outputs"][0]["parameters"] == {"binary_data_size": 16}


def test_a_body_that_arrives_late(app, runtime):
    async def main():
        request = FakeHttpRequest("POST", PATH, json.dumps(BODY).encode(), late=True)
        task = asyncio.get_running_loop().create_task(app(request))
        await runtime.arrived.wait()
        assert not task.done()
        _answer(runtime)
        await task
        return request

    assert asyncio.run(main()).status == 200


def test_a_late_body_that_never_comes(app, metrics):
    request = FakeHttpRequest("POST", PATH, PayloadTooLarge("too long"), late=True)
    asyncio.run(app(request))
    assert request.status == 413
    error = json.loads(request.answer)["error"]
    assert "exceeds the maximum allowed input size. Use --http-max-input-size" in error
    assert error.endswith("too long")
    assert _in_flight(metrics) == 0


def test_a_late_request_is_cancelled(app, runtime):
    async def main():
        request = FakeHttpRequest("POST", PATH, json.dumps(BODY).encode(), late=True)
        task = asyncio.get_running_loop().create_task(app(request))
        await runtime.arrived.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    assert runtime.submitted[0][3].cancelled


def test_a_client_that_leaves(app, runtime, metrics):
    request = _infer(app)
    request.on_disconnect()
    assert runtime.submitted[0][3].cancelled
    _answer(runtime)  # too late: ignored
    assert request.status is None
    assert _in_flight(metrics) == 0
    assert _counts(metrics) == {("http", "infer", "POST", "499"): 1}


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (QueueFull("full", retry_after_s=3), 503, {b"retry-after": b"3"}),
        (QueueTimeout("late", retry_after_s=2), 503, {b"retry-after": b"2"}),
        (DeadlineExceeded("late"), 504, {}),
        (ModelError("failed"), 500, {}),
    ],
)
def test_errors_of_the_runtime(app, runtime, error, status, headers):
    refused = FakeRuntime()
    refused.refuse = error
    request = _infer(OipHttp(refused))
    assert (request.status, request.answer_headers) == (status, headers)
    request = _infer(app)
    runtime.submitted[0][2](error)
    assert (request.status, request.answer_headers) == (status, headers)
    assert json.loads(request.answer) == {"error": error.message, "code": error.code, "request_id": "http-id"}


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"outputs": {"OUT": "no array"}}, "bug"),
        ({"outputs": {"\ud83d": FLOATS}}, "bug"),
        ({"outputs": {}, "parameters": {"own": 10**4000}}, "bug"),
        ({"outputs": {"OUT": np.array(["\ud83d"], object)}}, "model_failed"),
    ],
)
def test_an_answer_that_cannot_be_encoded(app, runtime, metrics, caplog, response, code):
    request = _infer(app)
    runtime.submitted[0][2](InferResponse(model="m", version="1", **response))
    assert request.status == 500
    assert json.loads(request.answer)["code"] == code
    assert ("encoding the answer of model m failed" in caplog.text) == (code == "bug")
    assert _in_flight(metrics) == 0


def test_a_coding_that_nobody_reads_is_refused(app):
    request = FakeHttpRequest("POST", PATH, b"{}", headers=[(b"content-encoding", b"br")])
    asyncio.run(app(request))
    assert request.status == 415


def test_a_reloaded_model_brings_its_new_signature(app, runtime):
    _infer(app)
    runtime.loaded["m"] = FakeModel(datatype="INT32")
    request = _infer(app)
    assert "expects 'INT32'" in json.loads(request.answer)["error"]


def test_metrics(runtime, metrics):
    metrics.add_source(model_source(runtime))
    lines = render(metrics).decode().splitlines()
    for reason, count in {"BACKEND": 1, "CANCELED": 1, "OTHER": 0, "REJECTED": 3}.items():
        assert f'nv_inference_request_failure{{model="m",reason="{reason}",version="1"}} {count}' in lines
    assert 'nv_inference_request_duration_us{model="m",version="1"} 3000000' in lines
    assert 'nv_inference_pending_request_count{model="m",version="1"} 1' in lines
    assert 'nv_model_load_duration_secs{model="m",version="1"} 0.25' in lines
    assert [line for line in lines if line.startswith("trilith_model_loads{")] == [
        'trilith_model_loads{state="waiting"} 3.0',
        'trilith_model_loads{state="running"} 2.0',
        'trilith_model_loads{state="left_behind"} 1.0',
    ]
    assert 'trilith_model_rows_total{model="m",version="1"} 5.0' in lines
    assert 'trilith_model_requests_total{model="m",outcome="refused",version="1"} 2.0' in lines
    assert 'trilith_model_requests_total{model="m",outcome="failed",version="1"} 1.0' in lines
    assert 'trilith_model_seconds_total{model="m",phase="queue",version="1"} 3.0' in lines
    assert 'trilith_model_waiting_rows{model="m",version="1"} 2.0' in lines


def test_a_model_that_is_not_ready_says_so(app, runtime):
    _answer_of = json.dumps(BODY).encode()
    runtime.loaded["m"] = handle = ModelHandle(ModelSpec(name="m"), "1", [])
    handle.became(ModelEvent.FAILED, "/srv/models/m/1/x: missing")
    for request in (FakeHttpRequest("POST", PATH, _answer_of), FakeHttpRequest("GET", "/v2/models/m")):
        app(request)
        assert request.status == 503
        text = request.answer.decode()
        assert "'m' version 1 is not at ready state: it is UNAVAILABLE" in text
        assert "UNAVAILABLE: m/1/x: missing" in text
        assert "/srv" not in text


def test_a_bug_while_decoding_is_answered_and_counted_out(app, runtime, metrics, caplog):
    runtime.refuse = ZeroDivisionError("inside")
    request = _infer(app)
    answer = json.loads(request.answer)
    assert (request.status, answer["code"]) == (500, "bug")
    assert "inside" not in answer["error"]
    assert "ZeroDivisionError: inside" in caplog.text
    assert _in_flight(metrics) == 0
    assert _counts(metrics) == {("http", "infer", "POST", "500"): 1}


def test_a_bug_while_describing_is_answered_and_counted_out(app, runtime, metrics, caplog, monkeypatch):
    monkeypatch.setattr(runtime.loaded["m"], "outputs", None)
    status, answer = _get(app, "/v2/models/m")
    assert (status, answer["code"]) == (500, "bug")
    assert "answering model_metadata failed" in caplog.text
    assert _in_flight(metrics) == 0


def test_a_connection_that_takes_no_answer_is_counted_out(app, runtime, metrics, monkeypatch):
    def broken(self, *arguments, **options):
        raise OSError("gone")

    request = _infer(app)
    monkeypatch.setattr(FakeHttpRequest, "respond", broken)
    with pytest.raises(OSError, match="gone"):
        runtime.submitted[0][2](ModelError("failed"))
    with pytest.raises(OSError, match="gone"):
        app(FakeHttpRequest("GET", "/v2"))
    with pytest.raises(OSError, match="gone"):
        app(FakeHttpRequest("GET", "/v2/nothing"))
    assert request.status is None
    assert _in_flight(metrics) == 0


HALF = "\ud83d"


@pytest.mark.parametrize(
    "error", [ModelError(f"it quotes {HALF}"), QueueFull(f"{HALF} and more"), DeadlineExceeded("as ever \u00e9")]
)
def test_an_error_reaches_its_caller_whatever_it_quotes(app, runtime, metrics, error):
    request = _infer(app)
    runtime.submitted[0][2](error)
    assert request.status >= 400
    assert json.loads(request.answer)["error"] == error.message.replace(HALF, "?")
    assert _in_flight(metrics) == 0


@pytest.mark.parametrize("field", ["id", "name", "output", "parameter", "parameter name", "data", "unknown"])
@pytest.mark.parametrize("also", [1.5, float("nan")])
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(app, runtime, metrics, field, also):
    tensor = {**BODY["inputs"][0], "data": [1.0, 2.5, 3.25, also]}
    body = {"inputs": [tensor], "outputs": [{"name": "OUT"}], "parameters": {}}
    match field:
        case "id":
            body["id"] = HALF
        case "name":
            tensor["name"] = HALF
        case "output":
            body["outputs"][0]["name"] = HALF
        case "parameter":
            body["parameters"]["own"] = HALF
        case "parameter name":
            body["parameters"][HALF] = 1
        case "data":
            tensor["data"] = [HALF, also]
        case "unknown":
            body["unknown"] = [[HALF]]
    request = _infer(app, body)
    assert (request.status, runtime.submitted) == (400, [])
    assert "failed to parse the request JSON" in json.loads(request.answer)["error"]
    assert _in_flight(metrics) == 0


def test_a_whole_surrogate_pair_is_text_beside_a_nan(app, runtime):
    tensor = {**BODY["inputs"][0], "data": [1.0, 2.5, 3.25, float("nan")]}
    request = _infer(app, {"inputs": [tensor], "id": "\U0001f600"})
    _answer(runtime)
    assert json.loads(request.answer)["id"] == "\U0001f600"


@pytest.mark.parametrize("name", ["timeout", "priority", "own"])
@pytest.mark.parametrize("also", [1.5, float("nan")])
def test_a_number_of_any_length_is_answered(app, metrics, name, also):
    tensor = {**BODY["inputs"][0], "data": [1.0, 2.5, 3.25, also]}
    request = _infer(app, {"inputs": [tensor], "parameters": {name: 10**4000}})
    assert request.status == 400
    assert len(request.answer) < 400
    assert _in_flight(metrics) == 0


@pytest.mark.parametrize("path", ["/v2", "/v2/health/live", "/v2/models/m", "/v2/models/m/ready", "/v2/models/stats"])
def test_head_is_answered_as_get(app, metrics, path):
    assert _get(app, path, "HEAD") == _get(app, path)
    assert {method for _, _, method, _ in _counts(metrics)} == {"GET", "HEAD"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("POST", "/v2", b"GET, HEAD"), ("GET", PATH, b"POST"), ("HEAD", PATH, b"POST"), ("BREW", "/v2", b"GET, HEAD")],
)
def test_a_wrong_method_is_told_the_right_one(app, method, path, allowed):
    request = FakeHttpRequest(method, path)
    app(request)
    assert (request.status, request.answer_headers) == (405, {b"allow": allowed})


def test_a_result_after_the_end_is_ignored(app, runtime):
    request = _infer(app)
    again = _infer(app)
    for index in (0, 1, 0, 1):
        _answer(runtime, index)
    assert (request.status, again.status) == (200, 200)
    for _, _, on_done, _ in runtime.submitted:
        on_done(ModelError("too late"))
    assert (request.status, again.status) == (200, 200)


def test_each_refusal_for_capacity_says_when_to_come_again(app, runtime):
    runtime.loaded["m"].state = "LOADING"
    for path in ("/v2/models/m", "/v2/models/m/config", PATH):
        request = FakeHttpRequest("POST" if path == PATH else "GET", path, json.dumps(BODY).encode())
        app(request)
        assert (request.status, request.answer_headers) == (503, {b"retry-after": b"1"})
    for path in (PATH, "/v2/repository/index"):
        request = FakeHttpRequest("POST", path, QueueFull("too many bodies", retry_after_s=2), late=True)
        asyncio.run(app(request))
        assert (request.status, request.answer_headers) == (503, {b"retry-after": b"2"})


def test_a_large_answer_that_cannot_be_compressed_is_an_error_and_not_silence(app, runtime, metrics, monkeypatch):
    def full(body, coding):
        raise MemoryError

    monkeypatch.setattr("trilith.runtime.protocol.http_exchange.compressed", full)

    async def main():
        request = _infer(app, headers=[(b"accept-encoding", b"gzip")])
        asked, _, on_done, _ = runtime.submitted[-1]
        large = np.arange(40_000, dtype=np.float32).reshape(1, -1)
        on_done(InferResponse(model="m", version="1", id=asked.id, outputs={"OUT": large}))
        async with asyncio.timeout(10):
            while request.status is None:  # noqa: ASYNC110 - a thread's work
                await asyncio.sleep(0.001)
        return request

    request = asyncio.run(main())
    assert request.status == 500
    assert "could not be encoded" in json.loads(request.answer)["error"]
    assert _in_flight(metrics) == 0


@pytest.mark.parametrize("has_clients", [True, False])
def test_what_has_no_path_is_refused_in_the_form_of_models_where_there_may_be_clients_of_them(runtime, has_clients):
    app = OipHttp(runtime, has_clients=has_clients)
    error = InvalidInput("it is no HTTP")

    def told(path):
        status, body = app.error_form(FakeHttpRequest("GET", path), error, 400)
        assert status == 400
        return json.loads(body)["error"]

    assert (told("") == "it is no HTTP") == has_clients
    if not has_clients:
        assert {"code": "invalid_input", "message": "it is no HTTP"}.items() <= told("").items()
    assert told("/v2/models/m") == "it is no HTTP"
    assert told("/other")["message"] == "it is no HTTP"

"""Lines about requests: who asked for what, and what became of it."""

import json
import logging
from types import SimpleNamespace

import pytest

from trilith.core.identity import Identity
from trilith.core.log_options import LogOptions
from trilith.core.logs import ACCESS, REQUESTS, formatter
from trilith.net.request_log import grpc_answered, grpc_failed, http_answered, http_failed
from trilith.wire.grpc_status import GrpcStatus

TRACE = "0af7651916cd43dd8448eb211c80319c"


def request(**more):
    given = {
        "method": "POST",
        "path": "/read",
        "headers": [(b"traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())],
        "request_id": "r1",
        "received_at": 1.0,
        "identity": Identity(name="ann", kind="key"),
        "peer": "10.0.0.7:4711",
    }
    return SimpleNamespace(**given | more)


def call():
    return request(path=b"/words.Words/Find", metadata_fields=((b"traceparent", b"nonsense"),), identity=None)


@pytest.fixture
def line(caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger(), "handlers", [caplog.handler])  # without a real log's bounds

    def read(logger):
        [record] = [record for record in caplog.records if record.name == logger]
        caplog.clear()
        return json.loads(formatter(LogOptions(format="json")).format(record)), record.getMessage()

    return read


def test_an_answer(line):
    http_answered(request(), 200, 12)
    fields, text = line(ACCESS)
    assert fields.pop("seconds") > 0
    assert {name: fields[name] for name in fields if name not in ("time", "text", "level", "logger")} == {
        "protocol": "http",
        "method": "POST",
        "path": "/read",
        "status": 200,
        "size_bytes": 12,
        "request_id": "r1",
        "client": "10.0.0.7:4711",
        "identity": "ann",
        "trace_id": TRACE,
    }
    assert text.startswith("r1 (ann): POST /read 200 ")
    assert text.endswith(" 12 bytes to 10.0.0.7:4711")


def test_an_answer_that_was_broken_off(line):
    http_answered(request(identity=None, headers=[]), 200, whole=False)
    fields, text = line(ACCESS)
    assert fields["whole"] is False
    assert not {"identity", "trace_id", "size_bytes"} & fields.keys()
    assert "POST /read 200 broken off" in text


def test_a_call_of_grpc(line):
    grpc_answered(call(), GrpcStatus.OK, 5)
    fields, _ = line(ACCESS)
    assert (fields["protocol"], fields["status"], fields["path"]) == ("grpc", "OK", "/words.Words/Find")
    assert "trace_id" not in fields


def test_failures_name_who_asked(line):
    http_failed(request(), 500, b"broken")
    fields, text = line(REQUESTS)
    assert (fields["identity"], fields["trace_id"], fields["level"]) == ("ann", TRACE, "WARNING")
    assert text == "r1 (ann): POST /read 500: broken"
    grpc_failed(call(), GrpcStatus.NOT_FOUND, "none")
    fields, text = line(REQUESTS)
    assert (fields["client"], text) == ("10.0.0.7:4711", "r1: gRPC /words.Words/Find NOT_FOUND: none")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":{"code":"invalid_input","message":"x: too long","request_id":"r1"}}', "invalid_input: x: too long"),
        (b'{"error":"no such model"}', "no such model"),
        (b'{"detail": [1]}', '{"detail": [1]}'),
        (b"\xff no JSON", "\ufffd no JSON"),
    ],
)
def test_of_an_error_its_sentence_is_told(body, said, line):
    http_failed(request(identity=None), 400, body)
    assert line(REQUESTS)[1] == f"r1: POST /read 400: {said}"


def test_bytes_that_are_no_request_are_called_so(line):
    http_failed(request(identity=None, method="", path=""), 501, b'{"error":"TLS"}')
    assert line(REQUESTS)[1] == "r1: what is no request of HTTP 501: TLS"

"""What a client takes in one header list binds us: over a longer one it ends the call with a status of its own."""

from urllib.parse import unquote

import pytest
from grpc_memory import MemoryClient

from trilith.errors import InvalidInput
from trilith.wire.grpc_messages import list_bytes
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import frames as f
from trilith.wire.http2.settings import MAX_HEADER_LIST_SIZE


def client_taking(most, app):
    client = MemoryClient(app, greet=False)
    client.send(f.PREFACE + f.settings_frame([(MAX_HEADER_LIST_SIZE, most)]) + f.frame(f.SETTINGS, f.ACK, 0))
    client.written()
    return client


@pytest.mark.parametrize("most", [0, 150, 200, 300, 1000, 5000, 1 << 20])
def test_the_text_of_an_error_gives_way(most):
    text = "[request id: " + "x" * 3000 + "] there is no model 'm'"
    client = client_taking(most, lambda call: call.fail_error(InvalidInput(text)))
    client.send(client.call(1))
    fields, _, _ = client.answer()
    assert fields[b"grpc-status"] == b"3"
    shown = unquote(fields.get(b"grpc-message", b"").decode())
    if shown:
        assert list_bytes(fields.items()) <= most
    assert (b"no model 'm'" in shown.encode()) == (most >= 300)
    assert (shown == text) == (most >= 5000)


def test_of_metadata_and_text_the_text_stays():
    details = [(b"grpc-status-details-bin", b"A" * 400)]
    for most, kept in ((700, True), (400, False)):
        client = client_taking(most, lambda call: call.fail(GrpcStatus.NOT_FOUND, "not here", trailers=details))
        client.send(client.call(1))
        fields, _, _ = client.answer()
        assert fields[b"grpc-message"] == b"not here"
        assert (b"grpc-status-details-bin" in fields) == kept


@pytest.mark.parametrize("parts", [False, True])
def test_metadata_that_is_too_long_becomes_the_status(parts):
    def app(call):
        if parts:
            call.begin()
            call.finish(trailers=[(b"x-long", b"y" * 500)])
        else:
            call.reply(b"hello", trailers=[(b"x-long", b"y" * 500)])

    client = client_taking(400, app)
    client.send(client.call(1))
    fields, body, _ = client.answer()
    assert (fields[b"grpc-status"], body) == (b"8", b"")
    assert b"over the 400 that the client takes" in fields[b"grpc-message"]
    client = client_taking(1 << 16, app)
    client.send(client.call(1))
    assert client.answer()[0][b"grpc-status"] == b"0"


def test_initial_metadata_that_is_too_long_is_refused():
    client = client_taking(400, lambda call: call.begin([(b"x-long", b"y" * 500)]))
    client.send(client.call(1))
    fields, _, _ = client.answer()
    assert fields[b"grpc-status"] == b"8"


def test_the_client_may_change_its_mind():
    client = client_taking(200, lambda call: call.fail(GrpcStatus.INTERNAL, "m" * 500))
    client.send(f.frame(f.SETTINGS, f.ACK, 0))
    client.send(f.settings_frame([(MAX_HEADER_LIST_SIZE, 2000)]) + client.call(1))
    assert client.answer()[0][b"grpc-message"] == b"m" * 500

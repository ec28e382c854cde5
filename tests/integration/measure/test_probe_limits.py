"""The request before the load, to servers that never end what they say."""

import socket
import threading

import pytest

from trilith.errors import SetupError
from trilith.measure.load import Target
from trilith.measure.load.probe import probe


def endless(begin, more):
    """A server whose answer has no end; its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listener, listener.accept()[0] as client:
            client.recv(1 << 16)
            try:
                client.sendall(begin)
                while True:
                    client.sendall(more)
            except OSError:  # the other side has had enough
                return

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


@pytest.mark.parametrize(
    ("begin", "more", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x-more: of it\r\n" * 1000, "the head of its answer|gives no HTTP answer"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, "gave no answer within 0.3 s|the head of its answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n", bytes(1 << 16), "began an answer that did not end within 0.3 s"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
            b"9\r\ndata: 1\n\n\r\n",
            "began an answer that did not end within 0.3 s",
        ),
    ],
    ids=["head", "interim heads", "body", "events"],
)
def test_what_has_no_end_is_given_up(begin, more, said):
    port = endless(begin, more)
    with pytest.raises(SetupError, match=said):
        probe(Target.parse(f"http://127.0.0.1:{port}/x"), "GET", None, timeout_s=0.3)

"""A client that sends calls again: against a server that refuses, loses or drops them."""

import asyncio
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

import trilith
from trilith.errors import InvalidConfig, NoReadyReplica, QueueFull, ReplicaLost, ServiceError
from trilith.service import describe, openapi_document


@trilith.service
class Counts:
    @trilith.api(idempotent=True)
    def look(self) -> int: ...

    @trilith.api
    def add(self) -> int: ...


DOCUMENT = msgspec.json.encode(openapi_document(describe(Counts)))
FULL = (429, "queue_full", {"retry-after": "0"})
REFUSED = (429, "queue_full", {"retry-after": "0", "trilith-not-begun": "1"})
LOST = (502, "replica_lost", {})
FAILED = (500, "service_failed", {})
CUT = None


class Script:
    """A server that gives these answers in turn, then 7."""

    def __init__(self, port=0):
        self.answers, self.seen, self.limits = [], 0, []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply(200, DOCUMENT, {})

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                script.seen += 1
                script.limits.append(self.headers["trilith-timeout-ms"])
                answer = script.answers.pop(0) if script.answers else (200, None, {})
                if answer is CUT:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                status, code, headers = answer
                body = b"7" if code is None else msgspec.json.encode({"error": {"code": code, "message": "said so"}})
                self.reply(status, body, headers)

            def reply(self, status, body, headers):
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def script():
    found = Script()
    yield found
    found.close()


def call(script, method, *answers, asynchronous=False, **options):
    """The answer, or the error; and how often it was sent."""
    script.answers, script.seen = list(answers), 0

    async def awaited():
        async with trilith.client(script.url, asynchronous=True, **options) as client:
            return await getattr(client, method)()

    try:
        if asynchronous:
            found = asyncio.run(awaited())
        else:
            with trilith.client(script.url, **options) as client:
                found = getattr(client, method)()
    except trilith.errors.TrilithError as error:
        found = type(error)
    return found, script.seen


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_was_not_begun_is_sent_again(script, asynchronous):
    assert call(script, "add", REFUSED, REFUSED, asynchronous=asynchronous) == (7, 3)
    assert call(script, "add", *[REFUSED] * 9, asynchronous=asynchronous) == (QueueFull, 4)
    assert call(script, "add", REFUSED, retries=0, asynchronous=asynchronous) == (QueueFull, 1)
    assert call(script, "add", *[REFUSED] * 9, retries=1, asynchronous=asynchronous) == (QueueFull, 2)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_may_have_run_is_sent_again_only_when_it_may_run_twice(script, asynchronous):
    for answer, error in ((FULL, QueueFull), (LOST, ReplicaLost), (CUT, ReplicaLost)):
        assert call(script, "add", answer, asynchronous=asynchronous) == (error, 1)
        assert call(script, "look", answer, asynchronous=asynchronous) == (7, 2)
    assert call(script, "look", FAILED, asynchronous=asynchronous) == (ServiceError, 1)


def test_the_time_of_all_tries_is_that_of_one(script):
    assert call(
        script, "add", *[(429, "queue_full", {"retry-after": "5", "trilith-not-begun": "1"})] * 3, timeout_s=2
    ) == (
        QueueFull,
        1,
    )
    script.limits = []
    assert call(script, "add", REFUSED, timeout_s=20) == (7, 2)
    first, second = map(float, script.limits)
    assert second < first == 20_000


def test_a_server_that_is_away_for_a_moment():
    first = Script()
    port = first.server.server_address[1]
    with trilith.client(first.url, retries=100, timeout_s=30) as client:
        first.close()
        second: list[Script] = []
        starting = threading.Timer(0.2, lambda: second.append(Script(port)))
        starting.start()
        try:
            assert client.add() == 7
        finally:
            starting.join()
            second[0].close()
    assert second[0].seen == 1


def test_a_server_that_is_not_there(script):
    with trilith.client(script.url, retries=1) as client:
        script.server.shutdown()
        script.server.server_close()
        with pytest.raises(NoReadyReplica, match="nothing answers at"):
            client.add()


def test_numbers_that_are_none(script):
    with pytest.raises(InvalidConfig):
        trilith.client(script.url, retries=-1)

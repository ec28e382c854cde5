"""REST over HTTP/2, in memory: requests, bodies, answers, refusals and ends."""

import asyncio
import time

import pytest
from grpc_memory import MemoryLoop, MemoryTransport
from hpack import Decoder
from http2_wire import RawClient, parse_frames
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.errors import Cancelled, PayloadTooLarge, QueueFull, ServiceError
from trilith.net.http1.http2_connection import HttpOverHttp2
from trilith.net.http1.state import ServerState
from trilith.wire.http1 import HttpLimits
from trilith.wire.http2 import ErrorCode
from trilith.wire.http2 import frames as f

GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/a?b=c"), (b":authority", b"here")]
POST = [(b":method", b"POST"), *GET[1:]]


class Rest(RawClient):
    """A client of an `HttpOverHttp2`, on a loop that the test runs."""

    def __init__(self, app=None, **limits):
        super().__init__(greet=False)
        self.requests = []
        self.loop = MemoryLoop()
        self.state = ServerState(app or self.requests.append, HttpLimits(**limits), self.loop)
        self.state.hangups.close()  # for HTTP/1.1 alone
        self.transport = MemoryTransport()
        self.server = HttpOverHttp2(self.state, peer="10.0.0.1:1")
        self.server.connection_made(self.transport)
        self.decoder = Decoder()
        self.send(f.PREFACE + f.settings_frame([]) + f.frame(f.SETTINGS, f.ACK, 0))
        self.written()

    def send(self, octets):
        self.server.data_received(octets)

    def get(self, stream_id=1, *fields, end=True, head=GET):
        return self.headers(stream_id, [*head, *fields], end=end)

    def post(self, stream_id, body, *fields):
        return self.headers(stream_id, [*POST, *fields]) + f.frame(f.DATA, f.END_STREAM, stream_id, body)

    def written(self):
        self.loop.run()
        octets, self.transport.written = self.transport.written, b""
        return parse_frames(octets)

    def answers(self):
        """Of each stream: its fields, its body, and how it ended: `end`, a reset's code, or None."""
        found = {}
        for kind, flags, stream_id, payload in self.written():
            if not stream_id or kind == f.WINDOW_UPDATE:
                continue
            fields, body, ended = found.get(stream_id, ({}, b"", None))
            if kind == f.HEADERS:
                fields = {**fields, **{bytes(n): bytes(v) for n, v in self.decoder.decode(payload, raw=True)}}
            elif kind == f.DATA:
                body += payload
            if kind == f.RST_STREAM:
                ended = (ended, ErrorCode(f.u32(payload)))
            elif flags & f.END_STREAM:
                ended = "end"
            found[stream_id] = (fields, body, ended)
        return found


def echo(request):
    request.respond(200, request.body_nowait(), content_type=b"text/plain")


def test_a_request_is_what_it_would_be_over_http1():
    client = Rest()
    cookies = [(b"cookie", b"a=1"), (b"x-key", b"v"), (b"cookie", b"b=2"), (b"x-request-id", b"mine")]
    client.send(client.get(1, *cookies))
    [request] = client.requests
    assert (request.method, request.path, request.query) == ("GET", "/a", "b=c")
    assert request.headers[0] == (b"host", b"here")
    assert request.header(b"cookie") == b"a=1; b=2"
    assert (request.request_id, request.peer, request.complete) == ("mine", "10.0.0.1:1", True)
    assert request.body_nowait() == b""
    request.respond(201, b"made", headers=[(b"X-Upper", b"1")])
    fields, body, ended = client.answers()[1]
    assert (fields[b":status"], fields[b"x-upper"], fields[b"content-length"]) == (b"201", b"1", b"4")
    assert (fields[b"server"], fields[b"x-request-id"]) == (b"trilith", b"mine")
    assert (body, ended) == (b"made", "end")
    assert client.state.counters.responses == {201: 1}
    assert not client.server.busy


def test_requests_are_answered_in_any_order():
    client = Rest()
    client.send(client.get(1) + client.get(3) + client.get(5))
    assert client.server.in_flight == 3
    for request in reversed(client.requests):
        request.respond(200, b"x")
    assert list(client.answers()) == [5, 3, 1]


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=3000), st.lists(st.integers(1, 500), min_size=1, max_size=5), st.integers(1, 700))
def test_bodies_come_and_go_through_any_cutting_and_window(body, sizes, window):
    client = Rest(echo)
    client.send(f.settings_frame([(4, 0)]) + client.headers(1, [*POST, (b"content-length", b"%d" % len(body))]))
    position, turn = 0, 0
    while position < len(body):
        size = sizes[turn % len(sizes)]
        client.send(f.frame(f.DATA, 0, 1, body[position : position + size]))
        position, turn = position + size, turn + 1
    client.send(f.frame(f.DATA, f.END_STREAM, 1))
    answered, ended = b"", None
    for _ in range(len(body) // window + 3):
        for _, piece, how in client.answers().values():
            answered, ended = answered + piece, how or ended
        client.send(f.window_update_frame(1, window) if ended is None else b"")
    assert (answered, ended) == (body, "end")


@pytest.mark.parametrize("fields", [[], [(b"expect", b"100-continue"), (b"content-length", b"3")]])
def test_bodies_of_unknown_length_are_handed_over_early(fields):
    async def main():
        client = Rest()
        client.send(client.get(1, *fields, head=POST, end=False))
        [request] = client.requests
        assert not request.complete
        reading = asyncio.ensure_future(request.body())
        client.loop.create_future = asyncio.get_running_loop().create_future
        await asyncio.sleep(0)
        expected = [b"100"] if fields else []
        assert [answer[0][b":status"] for answer in client.answers().values()] == expected
        client.send(f.frame(f.DATA, f.END_STREAM, 1, b"abc"))
        assert await reading == b"abc"
        request.respond(200)
        assert client.answers()[1][2] == "end"

    asyncio.run(main())


def test_what_is_not_read_is_not_granted():
    async def main():
        client = Rest(early_start_bytes=70_000, read_ahead_bytes=20_000)
        client.loop.create_future = asyncio.get_running_loop().create_future
        client.send(client.get(1, head=POST, end=False))
        [request] = client.requests
        for _ in range(4):
            client.send(f.frame(f.DATA, 0, 1, b"x" * 16_000))
        assert client.written() == []
        chunks = request.chunks()
        assert len(await anext(chunks)) == 64_000
        granted = [f.u32(payload) for kind, _, stream, payload in client.written() if stream == 1]
        assert sum(granted) >= 44_000
        await chunks.aclose()
        request.respond(200)
        assert client.answers()[1][2] == "end"
        for _ in range(16):
            client.send(f.frame(f.DATA, 0, 1, b"x" * 16_000))
        assert client.answers() == {}  # what is left of the body is dropped ...
        client.send(f.frame(f.DATA, 0, 1, b"x" * 16_000))
        assert client.answers()[1][2] == (None, ErrorCode.NO_ERROR)  # ... up to a bound

    asyncio.run(main())


@pytest.mark.parametrize(
    ("head", "fields", "status", "reason"),
    [
        (GET[:3], [], b"400", "host"),
        ([*GET[:2], (b":path", b"/" + b"x" * 200), GET[3]], [], b"414", "url_too_long"),
        (GET, [(b"x-%d" % number, b"1") for number in range(20)], b"431", "head_too_large"),
        (POST, [(b"content-length", b"1001")], b"413", "body_too_large"),
        (POST, [(b"expect", b"a miracle")], b"417", "expectation"),
        ([*GET[:2], (b":path", b"http://x/"), GET[3]], [], b"400", "malformed"),
    ],
)
def test_refusals(head, fields, status, reason):
    client = Rest(max_url_bytes=100, max_headers=10, max_body_bytes=1000)
    head_fields = fields
    client.send(client.get(1, *fields, head=head, end=False))
    fields, body, ended = client.answers()[1]
    assert (fields[b":status"], ended) == (status, "end")
    assert b'"error"' in body
    assert dict(client.state.counters.refused) == {reason: 1}
    assert client.requests == []
    length = int(dict(head_fields).get(b"content-length", 4))
    client.send(f.frame(f.DATA, f.END_STREAM, 1, b"x" * length) + client.get(3))
    assert len(client.requests) == 1
    client.requests[0].respond(200)
    client.written()
    assert client.server.http2.open_streams == 0


def test_a_body_that_turns_out_too_long():
    async def main():
        client = Rest(max_body_bytes=1000)
        client.loop.create_future = asyncio.get_running_loop().create_future
        client.send(client.get(1, head=POST, end=False))
        [request] = client.requests
        reading = asyncio.ensure_future(request.body())
        await asyncio.sleep(0)
        client.send(f.frame(f.DATA, 0, 1, b"x" * 900) + f.frame(f.DATA, 0, 1, b"x" * 900) * 3)
        with pytest.raises(PayloadTooLarge) as caught:
            await reading
        request.respond_error(caught.value)
        assert client.answers()[1][0][b":status"] == b"413"
        assert dict(client.state.counters.refused) == {"body_too_large": 1}

    asyncio.run(main())


def test_what_is_left_of_an_answered_body_is_not_waited_for_long():
    client = Rest(lambda request: request.respond(200), linger_timeout_s=2)
    client.send(client.get(1, head=POST, end=False))
    assert client.answers()[1][2] == "end"
    client.server.check(client.state.now + 1)
    assert client.server.busy
    client.server.check(client.state.now + 3)
    assert client.answers()[1][2] == (None, ErrorCode.NO_ERROR)
    assert not client.server.busy
    too_much = Rest(lambda request: request.respond(200), early_start_bytes=100)
    too_much.send(too_much.get(1, (b"content-length", b"1000000"), head=POST, end=False))
    assert too_much.answers()[1][2] == ("end", ErrorCode.NO_ERROR)


def test_a_body_that_stops_coming():
    client = Rest(body_timeout_s=30)
    client.send(client.headers(1, [*POST, (b"content-length", b"10")]) + f.frame(f.DATA, 0, 1, b"x"))
    client.server.check(time.monotonic() + 29)
    assert client.answers() == {}
    client.server.check(time.monotonic() + 31)
    assert client.answers()[1][0][b":status"] == b"408"


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body(status):
    client = Rest(lambda request: request.respond(status, b"dropped"))
    client.send(client.get(1) + client.headers(3, [(b":method", b"HEAD"), *GET[1:]], end=True))
    assert [answer[1:] for answer in client.answers().values()] == [(b"", "end"), (b"", "end")]


def test_what_cannot_be_sent_is_an_error_of_the_application():
    client = Rest()
    client.send(client.get(1))
    [request] = client.requests
    for options in ({"status": 99}, {"headers": [(b"bad name", b"")]}, {"headers": [(b"x", b"a\r\nb")]}):
        with pytest.raises(ServiceError):
            request.respond(**{"status": 200, **options})
    request.respond_error(QueueFull("full"))
    fields, body, _ = client.answers()[1]
    assert (fields[b":status"], fields[b"retry-after"]) == (b"429", b"1")
    assert b"queue_full" in body


def test_a_client_that_goes_is_told_to_its_application():
    client = Rest()
    client.send(client.get(1) + client.get(3))
    gone = []
    for request in client.requests:
        request.on_disconnect = lambda request=request: gone.append(request.request_id)
    client.send(f.reset_frame(1, 8))
    assert gone == [client.requests[0].request_id]
    client.requests[0].respond(200, b"too late")
    assert client.written() == []
    client.server.connection_lost(None)
    assert len(gone) == 2
    assert client.state.counters.disconnects == 2


async def pump(client):
    """Lets both loops run: that of the test, and the connection's."""
    for _ in range(40):
        client.loop.run()
        await asyncio.sleep(0)


def test_streams_of_answers_wait_for_their_client_and_end_in_a_reset_when_they_fail():
    async def main():
        client = Rest()
        produced = []

        async def chunks(fail):
            for number in range(20):
                produced.append(number)
                yield b"z" * 10_000
            if fail:
                raise ValueError("no more")

        client.send(client.get(1))
        [request] = client.requests
        streaming = asyncio.ensure_future(request.stream(chunks(False)))
        await pump(client)
        assert 10 < len(produced) < 20
        client.send(f.window_update_frame(0, 1 << 20) + f.window_update_frame(1, 1 << 20))
        await pump(client)
        await streaming
        _, body, ended = client.answers()[1]
        assert (len(body), ended) == (200_000, "end")

        client.send(f.window_update_frame(0, 1 << 20) + f.settings_frame([(4, 1 << 20)]) + client.get(3))
        failing = asyncio.ensure_future(client.requests[1].stream(chunks(True)))
        await pump(client)
        with pytest.raises(ValueError, match="no more"):
            await failing
        assert client.answers()[3][2] == (None, ErrorCode.INTERNAL_ERROR)
        assert client.state.counters.aborted_streams == 1

        client.send(client.get(5))
        client.send(f.settings_frame([(4, 0)]))
        streaming = asyncio.ensure_future(client.requests[2].stream(chunks(False)))
        await pump(client)
        assert not streaming.done()
        client.send(f.reset_frame(5, 8))
        with pytest.raises(Cancelled):
            await streaming

    asyncio.run(main())


def test_a_drain_lets_requests_end():
    client = Rest()
    client.send(client.get(1))
    client.server.close_when_idle()
    client.server.close_when_idle()
    go_away, ping = client.written()
    assert (go_away[0], ping[0]) == (f.GOAWAY, f.PING)
    client.send(client.get(3))  # it was on its way
    client.send(f.frame(f.PING, f.ACK, 0, ping[3]))
    client.send(client.get(5))
    assert len(client.requests) == 2
    assert not client.transport.closed
    for request in client.requests:
        request.respond(200)
    client.loop.run()
    assert client.transport.closed


def test_times():
    silent = Rest(head_timeout_s=10, idle_timeout_s=60)
    silent.server.check(time.monotonic() + 61)
    assert [kind for kind, *_ in silent.written()] == [f.GOAWAY, f.PING]
    silent.server.check(time.monotonic() + 63)
    silent.loop.run()
    assert silent.transport.closed
    stuck = Rest(write_timeout_s=30)
    stuck.server.pause_writing()
    stuck.server.check(time.monotonic() + 31)
    assert stuck.transport.aborted
    assert stuck.state.counters.write_timeouts == 1


def test_an_answer_that_is_not_read_is_dropped():
    client = Rest(lambda request: request.respond(200, b"x" * 100_000), write_timeout_s=30)
    client.send(client.get(1))
    client.written()
    for seconds in (1, 30, 32):
        client.server.check(client.state.now + seconds)
    assert client.answers()[1][2] == (None, ErrorCode.CANCEL)
    assert client.state.counters.write_timeouts == 1
    assert not client.server.busy


def test_faults_are_counted_and_end_the_connection():
    client = Rest()
    client.send(client.get(1))
    client.send(f.frame(f.PING, 0, 0, b"short"))
    assert dict(client.state.counters.refused) == {"frame_size": 1}
    assert client.transport.ended
    assert client.state.counters.disconnects == 1
    many = Rest(max_concurrent_streams=1)
    many.send(many.get(1) + many.get(3))
    assert dict(many.state.counters.refused) == {"streams": 1}


@pytest.mark.parametrize(
    ("name", "value", "status", "reason"),
    [
        (b":method", b"GET /admin HTTP/1.1?", 501, "method"),
        (b":method", b"GE(T", 501, "method"),
        (b":method", b"G" * 33, 501, "method"),
        (b":method", b"CONNECT", 501, "upgrade"),
        (b":path", b"/a b", 400, "malformed"),
        (b":path", b"/a\t./b", 400, "malformed"),
        (b":path", b"/\x01\x7f", 400, "malformed"),
        (b":path", b"/\xc3\xa9", 400, "malformed"),
        (b":path", b"/public/..#", 400, "malformed"),
        (b":path", b"/a?b#c", 400, "malformed"),
        (b":path", b"a", 400, "malformed"),
        (b":path", b"*", 400, "malformed"),
        (b":authority", b"x y", 400, "host"),
        (b":authority", b"x/y?@z", 400, "host"),
        (b":authority", b"x\x01", 400, "host"),
    ],
)
def test_a_head_that_http1_would_not_take_is_refused(name, value, status, reason):
    client = Rest()
    client.send(client.get(head=[(field, value if field == name else was) for field, was in GET]))
    fields, _, ended = client.answers()[1]
    assert (fields[b":status"], ended) == (b"%d" % status, "end")
    assert client.requests == []
    assert client.state.counters.refused == {reason: 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b":method", b"OPTIONS"),
        (b":method", b"M-SEARCH"),
        (b":path", b"/~!$&'()*+,;=:@%20?a=/?"),
        (b":authority", b"[::1]:80"),
    ],
)
def test_a_head_that_http1_would_take_is_taken(name, value):
    client = Rest()
    client.send(client.get(head=[(field, value if field == name else was) for field, was in GET]))
    assert len(client.requests) == 1
    client.send(client.get(3, head=[(b":method", b"OPTIONS"), GET[1], (b":path", b"*"), GET[3]]))
    assert client.requests[1].path == "*"


def test_a_client_that_reads_may_say_so_often():
    client = Rest(lambda request: request.respond(200, bytes(64 << 10)), max_head_bytes=1 << 16)
    for stream_id in range(1, 400, 2):
        client.send(client.get(stream_id) + f.window_update_frame(0, 2 << 10) * 32)
        client.send(f.window_update_frame(stream_id, 2 << 10) * 32)
        client.written()
    assert client.state.counters.refused == {}


def test_one_without_requests_gives_way_to_who_comes_and_says_so():
    client = Rest(max_connections=1)
    state = client.state
    assert client.server.idle_since is not None
    client.send(client.get())
    assert client.server.idle_since is None
    state.make_room("")
    assert list(state.connections) == [client.server]
    client.requests[0].respond(200)
    client.written()
    state.now = time.monotonic() + 1
    state.make_room("")
    assert list(state.connections) == [client.server]
    state.now += 5
    state.make_room("")
    assert not state.connections
    assert [kind for kind, *_ in client.written()] == [f.GOAWAY]
    assert client.transport.closed
    assert not client.transport.aborted
    client.server.connection_lost(None)
    assert not state.turned_away


def test_one_that_said_its_settings_alone_gives_way_at_once():
    client = Rest()
    client.state.make_room("")
    assert [kind for kind, *_ in client.written()] == [f.GOAWAY]
    assert client.transport.closed
    assert client.state.counters.refused == {"connections": 1}

"""Our connection against python-hyper's `h2`, in memory, with the octets cut anywhere.

h2 checks our frames as strictly as we check its frames: a mistake on either side is an exception or a ConnectionFailed.
"""

import random

import h2.config
import h2.connection
import h2.events
import h2.settings
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.wire.http2 import (
    ConnectionFailed,
    DataReceived,
    EncodedHeaders,
    Http2Connection,
    Http2Limits,
    RequestReceived,
    StreamReset,
    TrailersReceived,
)

HEAD = EncodedHeaders([(b":status", b"200"), (b"content-type", b"application/grpc")])
TRAILERS = EncodedHeaders([(b"grpc-status", b"0")])


class EchoServer:
    """Answers each body with itself twice; keeps what it saw."""

    def __init__(self, limits):
        self.connection = Http2Connection(limits, now=0.0)
        self.heads, self.bodies, self.reset = {}, {}, set()

    def receive(self, octets):
        for event in self.connection.receive(octets, 0.0):
            match event:
                case RequestReceived(stream_id=stream_id, head=head, end_stream=end):
                    self.heads[stream_id], self.bodies[stream_id] = head, b""
                    self.answer(stream_id, end)
                case DataReceived(stream_id=stream_id, data=data, end_stream=end):
                    self.bodies[stream_id] += data
                    self.connection.release(stream_id, len(data))
                    self.answer(stream_id, end)
                case TrailersReceived(stream_id=stream_id):
                    self.answer(stream_id, True)
                case StreamReset(stream_id=stream_id, refusal=refusal):
                    assert refusal is None
                    self.reset.add(stream_id)
                case ConnectionFailed():
                    raise AssertionError(event)

    def answer(self, stream_id, end):
        if end:
            body = self.bodies[stream_id]
            self.connection.respond(stream_id, HEAD, (body, body), TRAILERS)


class H2Client:
    """An h2 client whose bodies go out as its windows allow."""

    def __init__(self):
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
        self.h2.initiate_connection()
        self.waiting, self.answers, self.ended, self.reset, self.pongs = {}, {}, set(), set(), 0
        self.unacknowledged = 1

    def request(self, fields, body, padding, trailers, piece):
        stream_id = self.h2.get_next_available_stream_id()
        head = [(b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", b"/x"), *fields]
        self.h2.max_outbound_frame_size = piece  # h2 cuts header blocks into CONTINUATION by it
        self.h2.send_headers(stream_id, head, end_stream=body is None)
        self.h2.max_outbound_frame_size = 16384
        if body is not None:
            self.waiting[stream_id] = [body, padding, trailers, piece]
        self.pump()
        return stream_id

    def pump(self):
        for stream_id, (body, padding, trailers, piece) in list(self.waiting.items()):
            while body:
                window = min(self.h2.local_flow_control_window(stream_id), piece)
                extra = 0 if padding is None else min(padding + 1, window // 2)
                size = min(len(body), window - extra)
                if size <= 0:
                    break
                self.h2.send_data(stream_id, body[:size], pad_length=extra - 1 if extra else None)
                body = body[size:]
            self.waiting[stream_id][0] = body
            if body:
                continue
            del self.waiting[stream_id]
            if trailers:
                self.h2.send_headers(stream_id, [(b"x-end", b"1")], end_stream=True)
            else:
                self.h2.end_stream(stream_id)

    def update(self, setting, value):
        # h2 takes any acknowledgement for that of all its changes, so one may be on its way at a time.
        if not self.unacknowledged:
            self.unacknowledged = 1
            self.h2.update_settings({setting: value})

    def receive(self, octets):
        for event in self.h2.receive_data(octets):
            match event:
                case h2.events.DataReceived():
                    self.answers[event.stream_id] = self.answers.get(event.stream_id, b"") + event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case h2.events.StreamEnded():
                    self.ended.add(event.stream_id)
                case h2.events.SettingsAcknowledged():
                    self.unacknowledged -= 1
                case h2.events.PingAckReceived():
                    self.pongs += 1
                case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                    raise AssertionError(event)
        self.pump()


FIELDS = st.lists(
    st.tuples(st.sampled_from([b"x-a", b"x-b", b"x-c-bin"]), st.sampled_from([b"1", b"2", b"v" * 50, b"w" * 1500])),
    max_size=4,
)
REQUEST = st.tuples(
    st.just("request"),
    FIELDS,
    st.none() | st.integers(0, 3000),
    st.none() | st.integers(0, 255),
    st.booleans(),
    st.sampled_from([128, 500, 16384]),
)
STEP = st.one_of(
    REQUEST,
    st.tuples(st.just("deliver"), st.booleans(), st.integers(1, 2000)),
    st.tuples(st.just("window"), st.sampled_from([0, 1, 100, 5000, 65_535, 1 << 20])),
    st.tuples(st.just("table"), st.sampled_from([0, 100, 4096])),
    st.tuples(st.just("frame"), st.sampled_from([16_384, 70_000])),
    st.tuples(st.just("reset"), st.integers(0, 9)),
    st.tuples(st.just("ping")),
)


@settings(max_examples=100)
@given(
    steps=st.lists(STEP, max_size=25),
    stream_window=st.sampled_from([50, 3000, 65_535, 1 << 20]),
    budget=st.sampled_from([100, 20_000, 1 << 20]),
    seed=st.integers(0, 1 << 30),
)
def test_every_answer_is_whole_whatever_the_order(steps, stream_window, budget, seed):
    chance = random.Random(seed)
    client, server = H2Client(), EchoServer(Http2Limits(stream_window_bytes=stream_window, max_continuations=200))
    to_server, to_client = bytearray(), bytearray()
    sent, cancelled, pings = {}, set(), 0

    def collect():
        to_server.extend(client.h2.data_to_send())
        to_client.extend(server.connection.take_output(budget))

    def deliver(towards_server, size):
        collect()
        queue = to_server if towards_server else to_client
        piece = bytes(queue[:size])
        del queue[:size]
        (server if towards_server else client).receive(piece)

    for step in steps:
        match step:
            case ("request", fields, size, padding, trailers, piece):
                body = None if size is None else chance.randbytes(size)
                sent[client.request(fields, body, padding, trailers, piece)] = (fields, body or b"")
            case ("deliver", towards_server, size):
                deliver(towards_server, size)
            case ("window", size):
                client.update(h2.settings.SettingCodes.INITIAL_WINDOW_SIZE, size)
            case ("table", size):
                client.update(h2.settings.SettingCodes.HEADER_TABLE_SIZE, size)
            case ("frame", size):
                client.update(h2.settings.SettingCodes.MAX_FRAME_SIZE, size)
            case ("reset", number) if number < len(sent):
                stream_id = list(sent)[number]
                if stream_id not in client.ended and stream_id not in cancelled:
                    client.h2.reset_stream(stream_id)
                    client.waiting.pop(stream_id, None)
                    cancelled.add(stream_id)
            case ("ping",):
                client.h2.ping(bytes(8))
                pings += 1

    def deliver_all():
        collect()
        while to_server or to_client or server.connection.has_output:
            deliver(chance.random() < 0.5, chance.choice([1, 9, 100, 10_000]) if len(to_server) < 2000 else 50_000)
            collect()

    deliver_all()
    client.update(h2.settings.SettingCodes.INITIAL_WINDOW_SIZE, 1 << 20)
    deliver_all()

    assert client.pongs == pings
    assert client.ended - cancelled == set(sent) - cancelled
    assert server.connection.open_streams == 0
    for stream_id in set(sent) - cancelled:
        fields, body = sent[stream_id]
        assert client.answers.get(stream_id, b"") == body + body
        assert list(server.heads[stream_id].fields) == fields


@settings(max_examples=100)
@given(st.binary(max_size=400), st.booleans(), st.integers(1, 50))
def test_arbitrary_octets_never_raise(octets, greet, piece):
    connection = Http2Connection(Http2Limits(), now=0.0)
    if greet:
        connection.receive(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), 0.0)
    for at in range(0, len(octets), piece):
        connection.receive(octets[at : at + piece], 0.0)
        connection.take_output(1000)

"""A `GrpcConnection` without a socket and without a loop."""

import time

from http2_wire import REQUEST, RawClient, parse_frames

from trilith.net.grpc import GrpcLimits
from trilith.net.grpc.connection import GrpcConnection
from trilith.net.grpc.state import ServerState
from trilith.wire.http2 import frames as f


class MemoryTransport:
    def __init__(self):
        self.written = b""
        self.closed = self.aborted = self.reading_paused = self.ended = False

    def set_write_buffer_limits(self, high):
        self.high = high

    def get_extra_info(self, name):
        return ("127.0.0.1", 1234) if name == "peername" else None

    def write(self, octets):
        assert not self.closed
        self.written += octets

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True

    def pause_reading(self):
        self.reading_paused = True

    def resume_reading(self):
        self.reading_paused = False


class Timer:
    def __init__(self, delay_s, callback):
        self.delay_s, self.callback, self.cancelled = delay_s, callback, False

    def cancel(self):
        self.cancelled = True


class MemoryLoop:
    """Keeps what it is asked to do, until the test does it."""

    def __init__(self):
        self.soon, self.timers = [], []

    def call_soon(self, callback):
        self.soon.append(callback)

    def call_later(self, delay_s, callback):
        self.timers.append(Timer(delay_s, callback))
        return self.timers[-1]

    def add_reader(self, fd, callback):
        """Nothing is ever ready here."""

    def remove_reader(self, fd):
        """Nothing was ever ready here."""

    def run(self):
        while self.soon:
            self.soon.pop(0)()


class MemoryClient(RawClient):
    """Speaks to an application through a whole `GrpcConnection`."""

    def __init__(self, app=None, *, greet=True, streaming=(), **limits):
        super().__init__(greet=False)
        self.calls = []
        self.loop = MemoryLoop()
        self.state = ServerState(app or self.calls.append, GrpcLimits(**limits), self.loop, streaming)
        self.transport = MemoryTransport()
        self.server = GrpcConnection(self.state)
        self.server.connection_made(self.transport)
        if greet:
            self.send(f.PREFACE + f.settings_frame([]) + f.frame(f.SETTINGS, f.ACK, 0))
            self.written()

    def send(self, octets):
        self.server.data_received(octets)

    def call(self, stream_id=1, message=b"hello", *fields, end=True):
        body = b"\0" + len(message).to_bytes(4, "big") + message
        flags = f.END_STREAM if end else 0
        return self.headers(stream_id, [*REQUEST, *fields]) + f.frame(f.DATA, flags, stream_id, body)

    def written(self):
        self.loop.run()
        octets, self.transport.written = self.transport.written, b""
        return parse_frames(octets)

    def answer(self):
        """The header fields and the body that were written for one stream, and whether it was reset too."""
        from hpack import Decoder

        decoder, fields, body, reset = Decoder(), [], b"", None
        for kind, _, _, payload in self.written():
            if kind == f.HEADERS:
                fields += [(bytes(n), bytes(v)) for n, v in decoder.decode(payload, raw=True)]
            elif kind == f.DATA:
                body += payload
            elif kind == f.RST_STREAM:
                reset = f.u32(payload)
        return dict(fields), body, reset

    def tick(self, in_s):
        self.server.tick(time.monotonic() + in_s)

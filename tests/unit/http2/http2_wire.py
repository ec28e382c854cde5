"""A client that writes frames by hand and reads what came back: for all that a correct library refuses to do."""

from hpack import Encoder

from trilith.wire.http2 import ConnectionFailed, ErrorCode, Event, Field, Http2Connection, Http2Limits
from trilith.wire.http2 import frames as f

REQUEST: list[Field] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/test.Echo/Echo"),
    (b":authority", b"localhost"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]


class RawClient:
    """Drives one `Http2Connection` in memory, with a clock that stands still."""

    def __init__(self, limits: Http2Limits | None = None, *, greet: bool = True) -> None:
        self.connection = Http2Connection(limits or Http2Limits(), now=0.0)
        self.encoder = Encoder()
        if greet:
            self.receive(f.PREFACE + f.settings_frame([]) + f.frame(f.SETTINGS, f.ACK, 0))
            self.output()

    def receive(self, octets: bytes) -> list[Event]:
        return self.connection.receive(octets, 0.0)

    def block(self, fields: list[Field] | None = None) -> bytes:
        return self.encoder.encode(fields or REQUEST, huffman=False)

    def headers(self, stream_id: int, fields: list[Field] | None = None, *, end: bool = False) -> bytes:
        flags = f.END_HEADERS | (f.END_STREAM if end else 0)
        return f.frame(f.HEADERS, flags, stream_id, self.block(fields))

    def output(self, budget: int = 1 << 30) -> list[tuple[int, int, int, bytes]]:
        """The frames that the server wrote: type, flags, stream, payload."""
        return parse_frames(self.connection.take_output(budget))

    def codes(self, octets: bytes) -> tuple[list[ErrorCode], list[ErrorCode]]:
        """Sends octets; the codes of the GOAWAYs and of the RST_STREAMs in the answer."""
        events = self.receive(octets)
        written = self.output()
        go_aways = [ErrorCode(f.u32(payload, 4)) for kind, _, _, payload in written if kind == f.GOAWAY]
        resets = [ErrorCode(f.u32(payload)) for kind, _, _, payload in written if kind == f.RST_STREAM]
        failed = [event.code for event in events if isinstance(event, ConnectionFailed)]
        assert failed == go_aways
        return go_aways, resets


def parse_frames(octets: bytes) -> list[tuple[int, int, int, bytes]]:
    found = []
    position = 0
    while position < len(octets):
        high, low, kind, flags, stream_id = f.FRAME_HEAD.unpack_from(octets, position)
        start = position + 9
        position = start + (high << 16 | low)
        found.append((kind, flags, stream_id, octets[start:position]))
    assert position == len(octets)
    return found

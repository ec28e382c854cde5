"""What clients of websockets send, whether they may or not, and what they read of a server."""

import struct
import zlib

from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = (
    "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n"
)


def handshake(*lines: str) -> bytes:
    return (HANDSHAKE + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


def frame(
    opcode: int, payload: bytes = b"", *, fin: bool = True, bits: int = 0, mask: bytes | None = b"\x91\x02\xfe\x04"
) -> bytes:
    """One frame of a client. `bits`: the reserved ones, 4 for the first."""
    flag = 0 if mask is None else 0x80
    first = (0x80 if fin else 0) | bits << 4 | opcode
    size = len(payload)
    if size < 126:
        head = bytes((first, flag | size))
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, flag | 126, size)
    else:
        head = struct.pack("!BBQ", first, flag | 127, size)
    if mask is None:
        return head + payload
    return head + mask + bytes(octet ^ mask[at % 4] for at, octet in enumerate(payload))


def deflated(message: bytes) -> bytes:
    work = zlib.compressobj(wbits=-15)
    return (work.compress(message) + work.flush(zlib.Z_SYNC_FLUSH))[:-4]


def close(code: int, reason: str = "") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason.encode())


def frames_of(octets: bytes) -> list[Frame]:
    """What a server wrote, as the library `websockets` reads it; nothing may be left over."""
    reader, extension = StreamReader(), PerMessageDeflate(True, True, 15, 15)
    reader.feed_data(octets)
    found = []
    while reader.buffer:
        parsing = Frame.parse(reader.read_exact, mask=False, extensions=[extension])
        try:
            next(parsing)
        except StopIteration as done:
            found.append(done.value)
        else:
            raise AssertionError("half a frame was written")
    return found


def said(octets: bytes) -> list[tuple[str, bytes]]:
    return [(Opcode(each.opcode).name, bytes(each.data)) for each in frames_of(octets)]

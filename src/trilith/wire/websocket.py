"""Websockets without I/O (RFC 6455): octets to messages, as either side sees them; what a server sends.

Frames are taken apart by wsproto's decoder; what there is to say of them stands here.

Rule 1: it is read when it is asked for (`next`). What was fed and not asked for lies here as octets.
Rule 2: the first violation ends reading for good. It says the code with which the connection is to be closed.
Rule 3: a message is bounded while it comes: what the head of a frame announces counts before its octets are here, and
    what is compressed as what it becomes.
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, ParseFailed, RsvBits

from trilith.wire.pieces import Pieces
from trilith.wire.websocket_deflate import Deflate, Inflation

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
UNSUPPORTED_DATA: Final = 1003
NO_CODE: Final = 1005
"""The peer's close said no code. Never sent."""
LOST: Final = 1006
"""The connection ended without a close. Never sent."""
NOT_UTF8: Final = 1007
POLICY: Final = 1008
TOO_BIG: Final = 1009
FAILED: Final = 1011
TRY_LATER: Final = 1013

_SENDABLE: Final = frozenset({*range(1000, 1004), *range(1007, 1015)})
_LIBRARY_CODES: Final = range(3000, 5000)
_LONGEST_REASON_BYTES: Final = 123
_NO_BITS: Final = RsvBits(False, False, False)
_COMPRESSED_BIT: Final = RsvBits(True, False, False)
_FIN: Final = 0x80
_RSV1: Final = 0x40


class Ping(NamedTuple):
    """The client asks for a `pong_frame` of the same octets."""

    payload: bytes


class Pong(NamedTuple):
    """An answer to a `ping_frame`, or a sign of life."""

    payload: bytes


class Closing(NamedTuple):
    """The client closes. `code`: `NO_CODE` when it said none."""

    code: int
    reason: str


class Part(enum.Enum):
    """Something was read that is no message yet. There may be more: ask again."""

    READ = enum.auto()


class WebSocketViolation(Exception):
    """The client broke a rule, or went over a bound.

    Attributes:
        code: with which to close.
        reason: a few words.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{reason} ({code})")
        self.code = code
        self.reason = reason


class WebSocketReader:
    """Reads what the other side sends.

    Args:
        max_message_bytes: of a message, inflated.
        deflate: messages may be compressed.
        from_server: what is read comes from a server, whose frames are not masked.
    """

    __slots__ = ("_bounds", "_decoder", "_kind", "_pieces")

    def __init__(self, *, max_message_bytes: int, deflate: Deflate | None = None, from_server: bool = False) -> None:
        self._bounds = _Bounds(max_message_bytes, inflates=deflate is not None)
        self._decoder = FrameDecoder(client=from_server, extensions=[self._bounds])
        self._kind: Opcode | None = None
        self._pieces = Pieces()
        self._pieces.gathers = True  # and what it has gathered goes back to the system, not to a heap full of holes

    @property
    def held_bytes(self) -> int:
        """How much lies here: octets that were not read, and the message that has begun."""
        return len(self._decoder.buffer) + self._pieces.size_bytes

    def feed(self, octets: bytes) -> None:
        """Takes what came."""
        self._decoder.receive_bytes(octets)

    def next(self) -> str | bytes | Ping | Pong | Closing | Part | None:
        """What the next frame brings; None: it is not here yet. Nothing is to be asked for after a `Closing`.

        A frame at a time, so that who reads can do something else between many empty ones.

        Raises:
            WebSocketViolation: the client may not send that.
        """
        try:
            frame = self._decoder.process_buffer()
        except ParseFailed as error:
            raise self._violation(error) from error
        if frame is None:
            return None
        opcode, payload = frame.opcode, bytes(frame.payload)  # type: ignore[arg-type]  # octets, from a decoder
        if opcode >= Opcode.CLOSE:
            return _sign(opcode, payload)
        if opcode is Opcode.CONTINUATION:
            if self._kind is None:
                raise WebSocketViolation(PROTOCOL_ERROR, "a continuation of no message")
        elif self._kind is not None:
            raise WebSocketViolation(PROTOCOL_ERROR, "a message before the end of the last one")
        else:
            self._kind = opcode
        self._pieces.add(payload)
        return self._message() if frame.frame_finished and frame.message_finished else Part.READ

    def _message(self) -> str | bytes:
        octets, kind = bytes(self._pieces.whole()), self._kind
        self._pieces.clear()
        self._kind = None
        if kind is not Opcode.TEXT:
            return octets
        try:
            return octets.decode()
        except UnicodeDecodeError as error:
            raise WebSocketViolation(NOT_UTF8, f"a text message is no UTF-8: {error.reason}") from error

    def _violation(self, error: ParseFailed) -> WebSocketViolation:
        if error.code is CloseReason.MESSAGE_TOO_BIG:
            return WebSocketViolation(TOO_BIG, f"a message is longer than {self._bounds.max_bytes} bytes")
        if error.code is CloseReason.INVALID_FRAME_PAYLOAD_DATA:
            return WebSocketViolation(NOT_UTF8, "a compressed message cannot be read")
        return WebSocketViolation(int(error.code), str(error))


class _Bounds(Extension):
    """What the decoder asks of each frame: how long a message may be, and what it is when it is inflated."""

    name = "bounds"

    def __init__(self, max_bytes: int, *, inflates: bool) -> None:
        self.max_bytes = max_bytes
        self._inflates = inflates
        self._message_bytes = 0
        self._compressed = self._control = False
        self._inflation: Inflation | None = None

    def offer(self) -> bool:
        """Nothing is negotiated here."""
        return False

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> CloseReason | RsvBits:
        """Looks at the head of a frame, twice when its mask came later."""
        self._control = opcode.iscontrol()
        if self._control:
            return _NO_BITS
        first = opcode is not Opcode.CONTINUATION
        if first:
            self._compressed = rsv.rsv1
        if not self._compressed and self._message_bytes + payload_length > self.max_bytes:
            return CloseReason.MESSAGE_TOO_BIG
        return _COMPRESSED_BIT if first and self._inflates else _NO_BITS

    def frame_inbound_payload_data(self, proto: FrameDecoder | FrameProtocol, data: bytes) -> bytes | CloseReason:
        """Some of a frame, unmasked."""
        if self._control:
            return data
        if not self._compressed:
            self._message_bytes += len(data)
            return data
        if self._inflation is None:
            self._inflation = Inflation()
        return self._inflated(self._inflation, data)

    def frame_inbound_complete(self, proto: FrameDecoder | FrameProtocol, fin: bool) -> bytes | CloseReason | None:
        """The end of a frame. `fin`: and of its message."""
        if self._control or not fin:
            return None
        inflation, self._inflation = self._inflation, None
        made = None if inflation is None else self._inflated(inflation, None)
        self._message_bytes = 0
        self._compressed = False
        return made

    def _inflated(self, inflation: Inflation, data: bytes | None) -> bytes | CloseReason:
        most = self.max_bytes - self._message_bytes
        try:
            made = inflation.finish(most) if data is None else inflation.push(data, most)
        except ValueError:
            return CloseReason.INVALID_FRAME_PAYLOAD_DATA
        if made is None:
            return CloseReason.MESSAGE_TOO_BIG
        self._message_bytes += len(made)
        return made


def _sign(opcode: Opcode, payload: bytes) -> Ping | Pong | Closing:
    if opcode is Opcode.PING:
        return Ping(payload)
    if opcode is Opcode.PONG:
        return Pong(payload)
    if not payload:
        return Closing(NO_CODE, "")
    code = int.from_bytes(payload[:2], "big") if len(payload) > 1 else 0
    if not may_close_with(code):
        raise WebSocketViolation(PROTOCOL_ERROR, "a close with a code that there is not")
    try:
        return Closing(code, payload[2:].decode())
    except UnicodeDecodeError as error:
        raise WebSocketViolation(NOT_UTF8, "the reason of a close is no UTF-8") from error


def may_close_with(code: int) -> bool:
    """Whether a close may say that code (RFC 6455, section 7.4, and the IANA registry)."""
    return code in _SENDABLE or code in _LIBRARY_CODES


# What a server sends. Its frames are not masked.


def message_head(size_bytes: int, *, text: bool, compressed: bool) -> bytes:
    """What stands before a message of that size, in one frame."""
    first = _FIN | (Opcode.TEXT if text else Opcode.BINARY) | (_RSV1 if compressed else 0)
    if size_bytes < 126:
        return bytes((first, size_bytes))
    if size_bytes < 1 << 16:
        return struct.pack("!BBH", first, 126, size_bytes)
    return struct.pack("!BBQ", first, 127, size_bytes)


def ping_frame(payload: bytes = b"") -> bytes:
    """Asks for a sign of life. At most 125 octets."""
    return bytes((_FIN | Opcode.PING, len(payload))) + payload


def pong_frame(payload: bytes) -> bytes:
    """Answers a `Ping`."""
    return bytes((_FIN | Opcode.PONG, len(payload))) + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """Closes. `NO_CODE` says none; a long reason is cut."""
    if code == NO_CODE:
        return bytes((_FIN | Opcode.CLOSE, 0))
    said = reason.encode(errors="replace")[:_LONGEST_REASON_BYTES].decode(errors="ignore").encode()
    return struct.pack("!BBH", _FIN | Opcode.CLOSE, 2 + len(said), code) + said

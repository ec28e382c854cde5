"""The layout of HTTP/2 frames (RFC 9113 sections 4 and 6): constants, and functions from values to bytes.

Rule: nothing here has state. The reading loop is in `connection.py`, because it is the hottest code of the layer.
"""

from __future__ import annotations

import struct
from typing import Final

from trilith.wire.http2.errors import ConnectionFault, ErrorCode

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD_BYTES: Final = 9
FRAME_HEAD: Final = struct.Struct(">BHBBI")
"""Length (high octet, low two), type, flags, stream id with its reserved bit."""

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

MAX_WINDOW: Final = 2**31 - 1
MAX_STREAM_ID: Final = 2**31 - 1
DEFAULT_WINDOW: Final = 65_535
DEFAULT_MAX_FRAME_BYTES: Final = 16_384
DEFAULT_TABLE_BYTES: Final = 4096

_U32: Final = struct.Struct(">I")
_SETTING: Final = struct.Struct(">HI")


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """One whole frame."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream_id) + payload


def frame_head(size_bytes: int, kind: int, flags: int, stream_id: int) -> bytes:
    """The nine octets before a payload of `size_bytes`."""
    return FRAME_HEAD.pack(size_bytes >> 16, size_bytes & 0xFFFF, kind, flags, stream_id)


def settings_frame(values: list[tuple[int, int]]) -> bytes:
    """A SETTINGS frame of (identifier, value) pairs."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(identifier, value) for identifier, value in values))


def settings_entries(payload: bytes) -> list[tuple[int, int]]:
    """The (identifier, value) pairs of a SETTINGS payload whose length is a multiple of six."""
    return list(_SETTING.iter_unpack(payload))


def window_update_frame(stream_id: int, increment: int) -> bytes:
    """A WINDOW_UPDATE frame; stream 0 is the whole connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, _U32.pack(increment))


def reset_frame(stream_id: int, code: ErrorCode) -> bytes:
    """A RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, _U32.pack(code))


def go_away_frame(last_stream_id: int, code: ErrorCode, reason: str = "") -> bytes:
    """A GOAWAY frame; the reason travels as debug data for the peer's log."""
    return frame(GOAWAY, 0, 0, _U32.pack(last_stream_id) + _U32.pack(code) + reason.encode())


def u32(payload: bytes, offset: int = 0) -> int:
    """The big-endian 32-bit number at `offset`."""
    return int.from_bytes(payload[offset : offset + 4], "big")


def without_padding(payload: bytes) -> bytes:
    """The content of a padded DATA or HEADERS payload.

    Raises:
        ConnectionFault: the padding is as long as the payload, or longer (RFC 9113 section 6.1).
    """
    if not payload:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a padded frame has no room for its pad length")
    padding = payload[0]
    if padding >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"{padding} octets of padding in {len(payload)} of payload")
    return payload[1 : len(payload) - padding]

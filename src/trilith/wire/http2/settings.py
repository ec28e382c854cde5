"""What each end tells the other about itself (RFC 9113 section 6.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trilith.wire.http2 import frames
from trilith.wire.http2.errors import ConnectionFault, ErrorCode

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    """What one connection may ask of us. The first five are announced in our SETTINGS.

    Attributes:
        max_concurrent_streams: more are refused (REFUSED_STREAM, which a client may retry).
        stream_window_bytes: how much of one stream's body the peer may send before we release some.
        max_frame_bytes: largest frame that we read, 16384 to 16777215.
        max_header_list_bytes: decoded size of one header list, as RFC 9113 counts it (32 octets a field on top).
        connection_window_bytes: the same as `stream_window_bytes` for all streams together; at least 65535.
        max_continuations: CONTINUATION frames of one header block.
        min_ping_interval_s: PINGs that come sooner after each other are strikes, unless an answer went out between ...
        max_ping_strikes: ... and one more than so many ends the connection with ENHANCE_YOUR_CALM, `too_many_pings`.
        control_burst: control frames (all but HEADERS and DATA that says something) accepted at once ...
        control_per_s: ... and each second after; each answered request allows one more. WINDOW_UPDATE has as many of
            its own, and more for each DATA frame that was sent.
    """

    max_concurrent_streams: int = 1000
    stream_window_bytes: int = 4 << 20
    max_frame_bytes: int = frames.DEFAULT_MAX_FRAME_BYTES
    max_header_list_bytes: int = 64 << 10
    connection_window_bytes: int = 16 << 20
    max_continuations: int = 64
    min_ping_interval_s: float = 10.0
    max_ping_strikes: int = 20
    control_burst: int = 4000
    control_per_s: float = 1000.0

    def announcement(self) -> bytes:
        """Our SETTINGS frame, and the WINDOW_UPDATE that widens the connection's window beyond its default."""
        values = [
            (MAX_CONCURRENT_STREAMS, self.max_concurrent_streams),
            (INITIAL_WINDOW_SIZE, self.stream_window_bytes),
            (MAX_FRAME_SIZE, self.max_frame_bytes),
            (MAX_HEADER_LIST_SIZE, self.max_header_list_bytes),
        ]
        announced = frames.settings_frame(values)
        growth = self.connection_window_bytes - frames.DEFAULT_WINDOW
        return announced + frames.window_update_frame(0, growth) if growth > 0 else announced


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSettings:
    """The peer's settings that bind us, as they stand."""

    initial_window: int = frames.DEFAULT_WINDOW
    max_frame_bytes: int = frames.DEFAULT_MAX_FRAME_BYTES
    smallest_table_bytes: int = frames.DEFAULT_TABLE_BYTES
    max_header_list_bytes: int | None = None

    def updated(self, entries: list[tuple[int, int]]) -> PeerSettings:
        """The settings after one SETTINGS frame. Unknown identifiers are ignored, as they must be.

        Raises:
            ConnectionFault: a value is outside its range.
        """
        window, max_frame, table = self.initial_window, self.max_frame_bytes, self.smallest_table_bytes
        header_list = self.max_header_list_bytes
        for identifier, value in entries:
            if identifier == INITIAL_WINDOW_SIZE:
                if value > frames.MAX_WINDOW:
                    raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"INITIAL_WINDOW_SIZE of {value}")
                window = value
            elif identifier == MAX_FRAME_SIZE:
                if not frames.DEFAULT_MAX_FRAME_BYTES <= value < 1 << 24:
                    raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"MAX_FRAME_SIZE of {value}")
                max_frame = value
            elif identifier == HEADER_TABLE_SIZE:
                table = min(table, value)
            elif identifier == MAX_HEADER_LIST_SIZE:
                header_list = value
            elif identifier == ENABLE_PUSH and value > 1:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH of {value}")
        return PeerSettings(
            initial_window=window,
            max_frame_bytes=max_frame,
            smallest_table_bytes=table,
            max_header_list_bytes=header_list,
        )

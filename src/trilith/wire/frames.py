"""The frames that gateway and workers exchange: one fixed header, opaque metadata, raw buffers.

    0        4     5      6          8         12      16       24      32      40
    | length | kind| flags| buffers  | meta    | count | call id| first | second | table | meta | inline buffers
    | u32    | u8  | u8   | u16      | u32     | u32   | u64    | f64   | f64    | 16 each, 8-aligned parts

Rule 1: everything is little endian and every length is checked against `FrameLimits` before memory is spent on it.
Rule 2: a buffer is inline (after the metadata) or shared: its table entry names a slot of a shared-memory segment.
Rule 3: table, metadata and each inline buffer start at a multiple of 8 in the body, so that tensors land aligned.
Rule 4: no I/O and no meaning here. What a kind does is decided by `trilith.net.transport`.

`count`, `first` and `second` mean by kind: CALL deadline in `first` (infinity: none), and for a call with items in
`count` and `second` the items and bytes that the caller takes at first (0: a call without); RESULT and ERROR the
started and finished instants; CREDIT the grant; WINDOW the items in `count` and the bytes in `first`; HELLO the
protocol version; SEGMENT the slots. ITEM and WINDOW have the flag `FROM_CALLER` when the caller of their call sends
them.
The metadata of ERROR and FAILED is `code NUL seconds NUL message`, in UTF-8. Kinds above `LAST_KIND` are free for later
versions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from trilith.core.foreign import shortened
from trilith.errors import Bug, InvalidConfig, PayloadTooLarge

Buffer = bytes | bytearray | memoryview

CALL: Final = 1
ACCEPT: Final = 2  # the call was begun; sent only where there is no accept board
RESULT: Final = 3
ERROR: Final = 4
CANCEL: Final = 5
CREDIT: Final = 6
NOTICE: Final = 7
HEARTBEAT: Final = 8
HELLO: Final = 9  # the first frame of each side
SEGMENT: Final = 10  # announces a shared-memory segment; its descriptor travels beside it
RETIRE: Final = 11  # the segment is not used any more
ITEM: Final = 12  # one item of a call's stream, either way
END: Final = 13  # the caller sends no more items; those of the called side end with RESULT or ERROR
WINDOW: Final = 14  # so many items and bytes more may be sent
FAILED: Final = 15  # the call has failed, the work on it goes on: the ERROR that frees its place is still due
LAST_KIND: Final = 15

FROM_CALLER: Final = 1  # flag of ITEM and WINDOW

HEADER: Final = struct.Struct("<IBBHIIQdd")
HEADER_BYTES: Final = HEADER.size
TABLE_ENTRY: Final = struct.Struct("<QII")
HEADER_AND_ENTRY: Final = struct.Struct("<IBBHIIQddQII")  # of a frame with one buffer
INLINE: Final = 0xFFFF_FFFF  # in the place of a segment number: the bytes are in the frame
PROTOCOL_VERSION: Final = 2
MAGIC: Final = int.from_bytes(b"trilith1", "little")
LARGEST_SMALL_BYTES: Final = 32_768  # metadata and buffer of a frame that `encode_small` makes

_PADDING: Final = tuple(b"\0" * size for size in range(8))
_PAIR_BYTES: Final = HEADER_AND_ENTRY.size
_LARGE_BYTES: Final = (
    65_536  # pieces up to here are joined into one `bytes`; joining a larger one costs more than it saves
)


class MalformedFrame(Exception):
    """The other side does not speak this protocol. Ends the connection; never leaves the transport."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameLimits:
    """What one frame may hold.

    Attributes:
        max_frame_bytes: header, metadata and inline buffers together; below 4 GiB.
        max_meta_bytes: metadata.
        max_buffers: buffers, inline and shared; below 65,536.

    Raises:
        InvalidConfig: the header has no room for such a number.
    """

    max_frame_bytes: int = 1 << 30
    max_meta_bytes: int = 16 << 20
    max_buffers: int = 4096

    def __post_init__(self) -> None:
        for name, value, bound in (
            ("max_frame_bytes", self.max_frame_bytes, 1 << 32),
            ("max_meta_bytes", self.max_meta_bytes, 1 << 32),
            ("max_buffers", self.max_buffers, 1 << 16),
        ):
            if not 0 < value < bound:
                raise InvalidConfig(f"frame limits: {name}: expected 1 to {bound - 1}, got {value}")

    @property
    def max_body_bytes(self) -> int:
        """The largest single buffer that a frame carries beside any metadata."""
        return max(0, self.max_frame_bytes - self.max_meta_bytes - HEADER_AND_ENTRY.size - 2 * 7)


class SharedPart(msgspec.Struct, frozen=True, gc=False):
    """A buffer that lies in shared memory: `size` bytes at the start of a slot."""

    segment: int
    slot: int
    size: int


class Frame(msgspec.Struct, gc=False):
    """One frame, read. `parts` are writable views of memory that belongs to the frame alone, or shared parts."""

    kind: int
    flags: int
    call_id: int
    count: int
    first: float
    second: float
    meta: bytes
    parts: list[memoryview | SharedPart]


def encode(
    kind: int,
    call_id: int = 0,
    meta: bytes = b"",
    *,
    flags: int = 0,
    count: int = 0,
    first: float = 0.0,
    second: float = 0.0,
) -> bytes:
    """A frame without buffers."""
    meta_bytes = len(meta)
    return HEADER.pack(HEADER_BYTES + meta_bytes, kind, flags, 0, meta_bytes, count, call_id, first, second) + meta


def encode_small(
    kind: int, call_id: int, meta: bytes, buffer: Buffer, flags: int, count: int, first: float, second: float
) -> bytes:
    """A frame with one small inline buffer: what `encode_with_buffers` makes of it, by the shortest way.

    Nearly every call and answer is such a frame. The caller has checked that metadata and buffer together are within
    `LARGEST_SMALL_BYTES` and the limits, and that the buffer is flat.
    """
    meta_bytes, size = len(meta), len(buffer)
    meta_padding, padding = -meta_bytes & 7, -size & 7
    frame_bytes = _PAIR_BYTES + meta_bytes + meta_padding + size + padding
    head = HEADER_AND_ENTRY.pack(
        frame_bytes, kind, flags, 1, meta_bytes, count, call_id, first, second, size, INLINE, 0
    )
    return b"".join((head, meta, _PADDING[meta_padding], buffer, _PADDING[padding]))


def encode_with_buffers(
    kind: int,
    call_id: int,
    meta: bytes,
    parts: Sequence[Buffer | SharedPart],
    limits: FrameLimits,
    *,
    flags: int = 0,
    count: int = 0,
    first: float = 0.0,
    second: float = 0.0,
) -> list[Buffer]:
    """A frame with buffers, as the pieces to write in order.

    Small pieces are copied together. A large inline buffer is a piece by itself: the caller's own object, not a copy.

    Args:
        parts: flat byte buffers (see `flat_bytes`) and shared parts.

    Raises:
        PayloadTooLarge: the frame would be over `limits`.
    """
    table: list[bytes] = []
    inline: list[Buffer] = []
    meta_bytes = len(meta)
    body_bytes = TABLE_ENTRY.size * len(parts) + meta_bytes + -meta_bytes % 8
    for part in parts:
        if isinstance(part, SharedPart):
            table.append(TABLE_ENTRY.pack(part.size, part.segment, part.slot))
            continue
        size = len(part)
        padding = -size % 8
        table.append(TABLE_ENTRY.pack(size, INLINE, 0))
        inline.append(part)
        if padding:
            inline.append(_PADDING[padding])
        body_bytes += size + padding
    frame_bytes = HEADER_BYTES + body_bytes
    check_size(frame_bytes, meta_bytes, len(parts), limits)
    head = HEADER.pack(frame_bytes, kind, flags, len(parts), meta_bytes, count, call_id, first, second)
    pieces = [head, *table, meta, _PADDING[-meta_bytes % 8], *inline]
    return [b"".join(pieces)] if body_bytes <= _LARGE_BYTES else _join_small(pieces)


def check_size(frame_bytes: int, meta_bytes: int, buffers: int, limits: FrameLimits) -> None:
    """Refuses to send what the other side would not take.

    Raises:
        PayloadTooLarge: one of the sizes is over its limit.
    """
    if frame_bytes <= limits.max_frame_bytes and meta_bytes <= limits.max_meta_bytes and buffers <= limits.max_buffers:
        return
    for what, size, limit in (
        ("bytes in a frame", frame_bytes, limits.max_frame_bytes),
        ("bytes of metadata", meta_bytes, limits.max_meta_bytes),
        ("buffers", buffers, limits.max_buffers),
    ):
        if size > limit:
            raise PayloadTooLarge(
                f"expected at most {limit} {what} between gateway and worker, got {size}; send less at a time"
            )


def encode_error(code: str, message: str, retry_after_s: float | None = None) -> bytes:
    """The metadata of an ERROR frame. A very long message is cut, and says so."""
    again = b"" if retry_after_s is None else b"%.3f" % retry_after_s
    return b"\0".join((code.encode(), again, shortened(message).encode(errors="replace")))


def decode_error(meta: bytes) -> tuple[str, str, float | None]:
    """The code, the message and the seconds to wait of an ERROR frame's metadata. What cannot be read is left out."""
    code, _, rest = meta.partition(b"\0")
    again, _, message = rest.partition(b"\0")
    try:
        retry_after_s = float(again) if again else None
    except ValueError:
        retry_after_s = None
    return code.decode(errors="replace"), message.decode(errors="replace"), retry_after_s


def decode_body(body: memoryview, buffer_count: int, meta_bytes: int) -> tuple[bytes, list[memoryview | SharedPart]]:
    """Takes apart what follows the header of a frame with buffers; copies the metadata only.

    Raises:
        MalformedFrame: table, metadata and buffers do not fill the body exactly.
    """
    position = TABLE_ENTRY.size * buffer_count
    meta_end = position + meta_bytes
    total = len(body)
    if meta_end > total:
        raise MalformedFrame(
            f"{buffer_count} buffers and {meta_bytes} bytes of metadata do not fit a body of {total} bytes"
        )
    meta = bytes(body[position:meta_end])
    position = meta_end + -meta_end % 8
    parts: list[memoryview | SharedPart] = []
    for size, segment, slot in TABLE_ENTRY.iter_unpack(body[: TABLE_ENTRY.size * buffer_count]):
        if segment != INLINE:
            parts.append(SharedPart(segment, slot, size))
            continue
        end = position + size
        if end > total:
            raise MalformedFrame(f"a buffer of {size} bytes at {position} ends outside its body of {total} bytes")
        parts.append(body[position:end])
        position = end + -end % 8
    if position != total:
        raise MalformedFrame(f"expected a body of {position} bytes by its own table, got {total}")
    return meta, parts


def flat_bytes(buffer: Buffer) -> Buffer:
    """The same memory as a one-dimensional buffer of bytes.

    Raises:
        Bug: the memory is not C-contiguous.
    """
    if not isinstance(buffer, memoryview) or (buffer.ndim == 1 and buffer.format == "B" and buffer.c_contiguous):
        return buffer
    if not buffer.c_contiguous:
        raise Bug(
            f"expected a C-contiguous buffer, got strides {buffer.strides} of shape {buffer.shape}; copy it first"
        )
    return buffer.cast("B") if buffer.nbytes else b""


def _join_small(pieces: list[Buffer]) -> list[Buffer]:
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) <= _LARGE_BYTES:
            small.append(piece)
            continue
        joined += (b"".join(small), piece)
        small = []
    if small:
        joined.append(b"".join(small))
    return [piece for piece in joined if piece]

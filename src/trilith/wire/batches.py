"""Many calls of one method in one frame, and their answers in one frame.

Rule: items keep their order and their own outcome; a batch has no result of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from trilith.errors import InvalidInput, ServiceError
from trilith.wire.frames import HEADER_BYTES, TABLE_ENTRY, Buffer, FrameLimits

_LIMITS: Final = FrameLimits()
_REST_BYTES: Final = HEADER_BYTES + 64  # of a frame: what no item has a part in
_ITEM_BYTES: Final = 64  # of an item: the most that its numbers and lengths take

LARGEST_BATCH: Final = _LIMITS.max_buffers
"""Most calls in one batch: nearly each has a buffer."""
FULL: Final = 1 << 30
"""The bulk of all that one frame carries."""
_SMALL_BULK: Final = -(-FULL // _LIMITS.max_buffers)
_SMALL_META_BYTES: Final = 1 << 11
_SMALL_BYTES: Final = 1 << 16
FLAG_BATCH: Final = 1
"""Frame flag of a call: the meta is that of a batch."""


class BatchItem(msgspec.Struct, array_like=True, frozen=True):
    """One call of a batch: its `CallMeta` as msgpack, its deadline (seconds), how many of the buffers are its own."""

    meta: bytes
    deadline: float
    buffer_count: int


class BatchItemResult(msgspec.Struct, array_like=True, frozen=True):
    """One outcome: `ResultMeta` as msgpack and its buffers, or the code and message of an error."""

    ok: bool
    meta: bytes = b""
    buffer_count: int = 0
    code: str = ""
    message: str = ""
    retry_after_s: float | None = None


_Item = TypeVar("_Item", BatchItem, BatchItemResult)

_encoder: Final = msgspec.msgpack.Encoder()
_items: Final = msgspec.msgpack.Decoder(list[BatchItem])
_results: Final = msgspec.msgpack.Decoder(list[BatchItemResult])


def bulk_of(meta_bytes: int, buffers: Sequence[Buffer], limits: FrameLimits = _LIMITS) -> int:
    """How much an item takes of a batch's frame, in parts of `FULL`, by whichever limit it comes nearest to.

    Items that have `FULL` together, or less, go into one frame. Buffers count as inline, wherever they will travel.
    """
    if meta_bytes < _SMALL_META_BYTES and len(buffers) == 1 and limits is _LIMITS:
        [body] = buffers
        if type(body) is bytes and len(body) < _SMALL_BYTES:
            return _SMALL_BULK  # nearly all: the number of buffers is the limit that they come nearest to
    padded_bytes = TABLE_ENTRY.size + 7
    own_bytes = meta_bytes + _ITEM_BYTES
    frame_bytes = own_bytes + sum(memoryview(buffer).nbytes + padded_bytes for buffer in buffers)
    return max(
        -(-FULL * frame_bytes // (limits.max_frame_bytes - _REST_BYTES)),
        -(-FULL * own_bytes // (limits.max_meta_bytes - _REST_BYTES)),
        -(-FULL * len(buffers) // limits.max_buffers),
    )


def encode_batch(items: Sequence[BatchItem] | Sequence[BatchItemResult]) -> bytes:
    """The meta of a batch's frame."""
    return _encoder.encode(items)


def answers_that_fit(
    results: Sequence[BatchItemResult], buffers: Sequence[Sequence[Buffer]], limits: FrameLimits = _LIMITS
) -> tuple[list[BatchItemResult], list[Sequence[Buffer]]]:
    """The outcomes and the buffers of each, without those answers that are too large for a frame with the others.

    Errors stay. The smallest answers stay, as many as there is room for; each of the others becomes an error.
    """
    left_out = [_too_large(sum(memoryview(buffer).nbytes for buffer in own), limits) for own in buffers]
    smallest = [_result_bulk(result, (), limits) for result in left_out]
    room = FULL - sum(smallest)
    kept = left_out
    kept_buffers: list[Sequence[Buffer]] = [()] * len(buffers)
    sizes = [_result_bulk(result, own, limits) for result, own in zip(results, buffers, strict=True)]
    for index in sorted(range(len(results)), key=lambda index: (results[index].ok, sizes[index])):
        room -= sizes[index] - smallest[index]
        if room < 0:
            break
        kept[index], kept_buffers[index] = results[index], buffers[index]
    return kept, kept_buffers


def _too_large(size_bytes: int, limits: FrameLimits) -> BatchItemResult:
    message = (
        f"the answer is too large: {size_bytes} bytes do not go with the other answers of its batch into one message"
        f" of at most {limits.max_frame_bytes} bytes; return less at a time, or lower Batch(max_size=...)"
    )
    return BatchItemResult(ok=False, code=ServiceError.code, message=message)


def _result_bulk(result: BatchItemResult, buffers: Sequence[Buffer], limits: FrameLimits) -> int:
    meta_bytes = len(result.meta) + len(result.code) + len(result.message.encode(errors="replace"))
    return bulk_of(meta_bytes, buffers, limits)


def decode_batch(meta: bytes | memoryview, buffer_count: int) -> list[BatchItem]:
    """The inverse of `encode_batch` for a call.

    Raises:
        InvalidInput: not a batch, or its items do not account for the frame's buffers.
    """
    return _checked(_items, meta, buffer_count)


def decode_batch_result(meta: bytes | memoryview, buffer_count: int) -> list[BatchItemResult]:
    """The inverse of `encode_batch` for a result. Raises as `decode_batch`."""
    return _checked(_results, meta, buffer_count)


def _checked(decoder: msgspec.msgpack.Decoder[list[_Item]], meta: bytes | memoryview, buffer_count: int) -> list[_Item]:
    try:
        items = decoder.decode(meta)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"a batch frame's meta cannot be read: {error}") from error
    counts = [item.buffer_count for item in items]
    if sum(counts) != buffer_count or (counts and min(counts) < 0):
        raise InvalidInput(f"a batch's items must account for its {buffer_count} buffers")
    return items

"""What the bulk of batched calls says fits a frame, fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trilith
from trilith.errors import InvalidConfig, PayloadTooLarge
from trilith.wire.batches import (
    FULL,
    LARGEST_BATCH,
    BatchItem,
    BatchItemResult,
    answers_that_fit,
    bulk_of,
    encode_batch,
)
from trilith.wire.frames import CALL, FrameLimits, encode_with_buffers

LIMITS = FrameLimits(max_frame_bytes=4000, max_meta_bytes=1500, max_buffers=9)
ITEM_BUFFERS = st.lists(st.integers(0, 300), max_size=3)
ITEMS = st.tuples(st.integers(0, 300), ITEM_BUFFERS)


@given(st.lists(ITEMS, max_size=20), st.booleans())
def test_what_has_the_bulk_of_a_frame_goes_into_one(sizes, answers):
    taken, bulk = [], 0
    for meta_bytes, buffers in ((meta_bytes, [bytes(size) for size in buffers]) for meta_bytes, buffers in sizes):
        bulk += bulk_of(meta_bytes, buffers, LIMITS)
        if bulk > FULL:
            break
        taken.append((bytes(meta_bytes), buffers))
    items = [
        BatchItemResult(ok=False, meta=meta, buffer_count=len(buffers), retry_after_s=1.0)
        if answers
        else BatchItem(meta=meta, deadline=1.0, buffer_count=len(buffers))
        for meta, buffers in taken
    ]
    encode_with_buffers(CALL, 1, encode_batch(items), [buffer for _, own in taken for buffer in own], LIMITS)


def test_the_largest_batch_goes_into_a_frame():
    assert bulk_of(0, [b""]) * LARGEST_BATCH <= FULL
    trilith.Batch(max_size=LARGEST_BATCH)
    with pytest.raises(InvalidConfig, match=f"from 1 to {LARGEST_BATCH}"):
        trilith.Batch(max_size=LARGEST_BATCH + 1)


@given(st.integers(0, 1 << 13), st.integers(0, 1 << 18))
def test_what_is_known_of_small_calls_is_what_counting_gives(meta_bytes, body_bytes):
    body = bytes(body_bytes)
    assert bulk_of(meta_bytes, [body]) == bulk_of(meta_bytes, [memoryview(body)])


def test_the_largest_body_goes_into_a_frame_beside_any_metadata():
    meta, most = bytes(LIMITS.max_meta_bytes), LIMITS.max_body_bytes
    encode_with_buffers(CALL, 1, meta, [bytes(most)], LIMITS)
    with pytest.raises(PayloadTooLarge):
        encode_with_buffers(CALL, 1, meta, [bytes(most + 16)], LIMITS)


@given(st.lists(st.tuples(st.booleans(), st.tuples(st.integers(0, 150), ITEM_BUFFERS)), max_size=4))
def test_of_answers_that_are_too_large_together_the_smallest_stay(outcomes):
    results = [
        BatchItemResult(ok=ok, meta=bytes(size), buffer_count=len(buffers) if ok else 0)
        for ok, (size, buffers) in outcomes
    ]
    buffers = [[bytes(9 * size) for size in own] if ok else [] for ok, (_, own) in outcomes]
    kept, kept_buffers = answers_that_fit(results, buffers, LIMITS)
    encode_with_buffers(CALL, 1, encode_batch(kept), [buffer for own in kept_buffers for buffer in own], LIMITS)
    sizes = [bulk_of(len(result.meta), own, LIMITS) for result, own in zip(results, buffers, strict=True)]
    left_out = [index for index, result in enumerate(kept) if result is not results[index]]
    for index in left_out:
        assert results[index].ok, "errors stay"
        assert (kept[index].code, list(kept_buffers[index])) == ("service_failed", [])
        assert all(
            sizes[other] <= sizes[index] for other in range(len(kept)) if other not in left_out and kept[other].ok
        )
    if sum(sizes) <= FULL // 2:
        assert not left_out

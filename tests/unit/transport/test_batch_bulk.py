"""What the bulk of batched calls says fits a frame, fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trilith
from trilith.errors import InvalidConfig, PayloadTooLarge
from trilith.wire.batches import FULL, LARGEST_BATCH, BatchItem, BatchItemResult, bulk_of, encode_batch
from trilith.wire.frames import CALL, FrameLimits, encode_with_buffers

LIMITS = FrameLimits(max_frame_bytes=4000, max_meta_bytes=1500, max_buffers=9)
ITEMS = st.tuples(st.integers(0, 300), st.lists(st.integers(0, 300), max_size=3))


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


def test_the_largest_body_goes_into_a_frame_beside_any_metadata():
    meta, most = bytes(LIMITS.max_meta_bytes), LIMITS.max_body_bytes
    encode_with_buffers(CALL, 1, meta, [bytes(most)], LIMITS)
    with pytest.raises(PayloadTooLarge):
        encode_with_buffers(CALL, 1, meta, [bytes(most + 16)], LIMITS)

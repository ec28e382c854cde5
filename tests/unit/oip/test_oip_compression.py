"""gzip and deflate: what is read, what is refused, how large a body may become."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidInput, PayloadTooLarge, UnsupportedMediaType
from trilith.wire.oip_compression import accepted_coding, compressed, content_coding, decompressed

LIMIT = 1 << 20


@given(st.binary(max_size=2000), st.sampled_from([b"gzip", b"deflate"]))
def test_both_ways(body, coding):
    assert decompressed(compressed(body, coding), coding, LIMIT) == body


def test_what_others_write_is_read():
    assert decompressed(gzip.compress(b"a") + gzip.compress(b"b"), b"gzip", LIMIT) == b"ab"
    raw = zlib.compressobj(wbits=-15)
    assert decompressed(raw.compress(b"abc") + raw.flush(), b"deflate", LIMIT) == b"abc"
    assert gzip.decompress(compressed(b"abc", b"gzip")) == b"abc"
    assert zlib.decompress(compressed(b"abc", b"deflate")) == b"abc"


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_a_bomb_stops_at_the_limit(coding):
    bomb = compressed(bytes(64 << 20), coding)
    assert len(bomb) < 1 << 19
    with pytest.raises(PayloadTooLarge, match=f"maximum allowed input size of {LIMIT} bytes"):
        decompressed(bomb, coding, LIMIT)
    exact = compressed(bytes(LIMIT), coding)
    assert len(decompressed(exact, coding, LIMIT)) == LIMIT
    with pytest.raises(PayloadTooLarge):
        decompressed(exact, coding, LIMIT - 1)


def test_a_bomb_in_many_members_stops_at_the_limit():
    with pytest.raises(PayloadTooLarge):
        decompressed(gzip.compress(bytes(LIMIT // 2)) * 3, b"gzip", LIMIT)


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        (b"", b"gzip"),
        (b"", b"deflate"),
        (b"no gzip", b"gzip"),
        (b"\x78\x9cno deflate", b"deflate"),
        (gzip.compress(b"abc", mtime=0)[:-3], b"gzip"),
        (zlib.compress(b"abc")[:-1], b"deflate"),
        (zlib.compress(b"abc") + b"more", b"deflate"),
        (gzip.compress(b"abc", mtime=0) + b"more", b"gzip"),
    ],
)
def test_what_is_broken_is_refused(body, coding):
    with pytest.raises(InvalidInput):
        decompressed(body, coding, LIMIT)


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"deflate"]))
def test_any_bytes_give_a_body_or_a_refusal(body, coding):
    try:
        decompressed(body, coding, 1000)
    except InvalidInput:
        return


def test_content_encoding():
    assert content_coding(None) is content_coding(b"identity") is content_coding(b"") is None
    assert content_coding(b" GZip ") == content_coding(b"x-gzip") == b"gzip"
    for value in (b"br", b"gzip, gzip", b"\xff"):
        with pytest.raises(UnsupportedMediaType, match="send gzip, deflate or neither"):
            content_coding(value)


@pytest.mark.parametrize(
    ("value", "coding"),
    [
        (None, None),
        (b"", None),
        (b"gzip", b"gzip"),
        (b"br, deflate", b"deflate"),
        (b"gzip, deflate", b"gzip"),
        (b"deflate;q=0.9, gzip;q=0.5", b"deflate"),
        (b"gzip;q=0, deflate;q=0", None),
        (b"GZIP ; q=1.0", b"gzip"),
        (b"gzip;q=nonsense", None),
        (b"gzip;q=7", None),
        (b"*", None),
        (b"identity", None),
    ],
)
def test_accept_encoding(value, coding):
    assert accepted_coding(value) == coding

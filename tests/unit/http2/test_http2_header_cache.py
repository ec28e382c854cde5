"""Our decoder with its cache, against `hpack.Decoder` without one."""

import pytest
from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.wire.http2.errors import ConnectionFault
from trilith.wire.http2.header_decoder import HeaderDecoder
from trilith.wire.http2.header_encoder import EncodedHeaders

NAMES = st.sampled_from([b":path", b"content-type", b"x-a", b"x-b", b"grpc-timeout", b"user-agent", b"x-long"])
VALUES = st.sampled_from([b"", b"1", b"2", b"application/grpc", b"/a/b", b"v" * 200, b"\x00\xff", b"w" * 3000])
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6)
ANY_FIELDS = st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.binary(max_size=300)), max_size=8)
BLOCKS = st.lists(st.tuples(FIELDS, st.booleans(), st.sampled_from([None, None, None, 0, 64, 500, 4096])), max_size=25)


@settings(max_examples=70)
@given(BLOCKS)
def test_same_fields_as_hpack_in_any_order_of_blocks(blocks):
    encoder, cached, plain = Encoder(), HeaderDecoder(), Decoder()
    for fields, huffman, table_size in blocks:
        if table_size is not None:
            encoder.header_table_size = table_size
        block = encoder.encode(fields, huffman=huffman)
        assert list(cached.decode(block).fields) == [tuple(field) for field in plain.decode(block, raw=True)]


@settings(max_examples=60)
@given(FIELDS, st.lists(st.integers(0, 255), max_size=3), st.integers(0, 10_000), st.binary(max_size=30))
def test_same_verdict_as_hpack_on_damaged_blocks(fields, octets, at, tail):
    block = bytearray(Encoder().encode(fields, huffman=True))
    if block:
        block[at % len(block) : at % len(block) + len(octets)] = bytes(octets)
    damaged = bytes(block) + tail
    try:
        expected = [tuple(field) for field in Decoder().decode(damaged, raw=True)]
    except (HPACKError, IndexError):
        expected = None
    try:
        found = list(HeaderDecoder().decode(damaged).fields)
    except ConnectionFault:
        found = None
    assert found == expected


@given(ANY_FIELDS)
def test_what_we_encode_is_read_by_hpack_and_changes_no_table(fields):
    decoder = Decoder()
    block = EncodedHeaders(fields).block
    assert [tuple(field) for field in decoder.decode(block, raw=True)] == fields
    assert not decoder.header_table.dynamic_entries


def test_a_block_is_decoded_once_while_the_table_stands():
    encoder, decoder = Encoder(), HeaderDecoder()
    fields = [(b":method", b"POST"), (b"x-a", b"1")]
    decoder.decode(encoder.encode(fields))  # fills the table
    block = encoder.encode(fields)
    first = decoder.decode(block)
    assert decoder.decode(block) is first
    version = decoder.table_version
    decoder.decode(encoder.encode([(b"x-b", b"2")]))
    assert decoder.table_version == version + 1
    assert decoder.decode(block).fields != first.fields  # the index means another entry now


def test_a_block_that_changes_the_table_is_never_cached():
    decoder = HeaderDecoder()
    block = b"\x40\x01a\x01b"
    assert decoder.decode(block) is not decoder.decode(block)
    assert decoder.table_version == 2


def test_the_cache_is_bounded():
    decoder = HeaderDecoder()
    for number in range(1000):
        decoder.decode(b"\x00\x01a\x04%04d" % number)
    assert len(decoder._cache) <= 64
    large = b"\x00\x01a" + b"\x7f\xa1\x1e" + b"v" * 4000
    assert decoder.decode(large) is not decoder.decode(large)


def test_a_list_of_too_many_fields_is_refused():
    with pytest.raises(ConnectionFault, match="1024 fields"):
        HeaderDecoder(max_list_bytes=1 << 20).decode(b"\x82" * 1025)

"""What a call's envelope holds of a request, by the short way, is what it would hold by the long one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.identity import Identity
from trilith.errors import InvalidInput, UnsupportedMediaType
from trilith.wire.call_headers import read_headers
from trilith.wire.calls import CallMeta, pack_call, pack_headers, pack_meta, unpack_call

texts = st.text(max_size=20)
headers = st.dictionaries(texts, texts, max_size=5)


identities = st.none() | st.builds(Identity, name=texts, kind=st.just("key"), claims=headers)


@given(texts, texts, texts, texts, headers, st.booleans(), texts, texts, identities)
def test_an_envelope_from_fields_is_that_of_the_struct(
    service, method, content_type, request_id, headers, trace, query, client, identity
):
    meta = CallMeta(service, method, content_type, request_id, headers, trace, query, client, identity)
    for given_headers in (headers, pack_headers(headers)):
        packed = pack_call(
            *(service, method, content_type, request_id, given_headers),
            trace=trace,
            query=query,
            client=client,
            identity=identity,
        )
        assert packed == pack_meta(meta)


def forwarded(*raw: tuple[bytes, bytes]) -> dict[str, str] | None:
    packed = pack_call("s", "m", "", "id", read_headers(raw).forwarded, trace=False, query="", client="", identity=None)
    return unpack_call(packed).headers


def test_headers_of_the_connection_are_not_forwarded():
    assert forwarded((b"host", b"h"), (b"content-length", b"3"), (b"accept", b"\xff")) == {"accept": "\xff"}
    assert forwarded() == {}


def test_the_first_of_equal_headers_counts_for_the_gateway():
    read = read_headers(((b"content-type", b"a"), (b"content-type", b"b"), (b"trilith-timeline", b"1")))
    assert (read.content_type, read.trace, read.timeout_s) == ("a", True, math.inf)
    assert forwarded((b"content-type", b"a"), (b"content-type", b"b")) == {"content-type": "b"}


@pytest.mark.parametrize(("raw", "timeout_s"), [(b"250", 0.25), (b"inf", math.inf), (b"1e3", 1.0)])
def test_a_time_limit_is_in_milliseconds(raw, timeout_s):
    assert read_headers(((b"trilith-timeout-ms", raw),)).timeout_s == timeout_s


@pytest.mark.parametrize("raw", [b"0", b"-1", b"nan", b"soon", b"", b"1_0"])
def test_a_time_limit_that_is_none_is_refused_each_time(raw):
    for _ in range(2):
        with pytest.raises(InvalidInput, match="number of milliseconds above 0"):
            read_headers(((b"trilith-timeout-ms", raw),))


@pytest.mark.parametrize("raw", [b"gzip", b"identity, GZIP", b"br", b"\xff"])
def test_a_compressed_body_is_refused_with_what_to_do(raw):
    for headers in (((b"content-encoding", raw),), ((b"content-encoding", b"identity"), (b"content-encoding", raw))):
        with pytest.raises(UnsupportedMediaType, match="send the body as it is"):
            read_headers(headers)


@pytest.mark.parametrize("raw", [b"identity", b"Identity ", b"", b"identity, identity"])
def test_a_body_that_says_it_is_as_it_is_is_read(raw):
    assert read_headers(((b"content-encoding", raw),)).content_type == ""

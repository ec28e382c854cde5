"""The envelopes of calls and answers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidInput
from trilith.wire.calls import CallMeta, ResultMeta, pack_meta, unpack_call, unpack_result

TEXT = st.text(st.characters(exclude_categories=("Cs",)))


@given(st.builds(CallMeta, TEXT, TEXT, TEXT, TEXT, st.none() | st.dictionaries(TEXT, TEXT), st.booleans(), TEXT))
def test_a_call_survives(meta):
    assert unpack_call(memoryview(pack_meta(meta))) == meta


@given(st.builds(ResultMeta, TEXT, st.none() | st.just(["service", 2, [], []])))
def test_an_answer_survives(meta):
    assert unpack_result(pack_meta(meta)) == meta


def test_fields_may_be_added_at_the_end():
    assert unpack_call(msgspec.msgpack.encode(["Ocr", "read", "a/b", "1", None, False, "", "new"])).service == "Ocr"
    assert unpack_call(msgspec.msgpack.encode(["Ocr", "read", "a/b", "1"])).query == ""


@pytest.mark.parametrize("raw", [b"", b"\xc1", msgspec.msgpack.encode(["Ocr"]), msgspec.msgpack.encode({})])
def test_what_is_no_envelope_is_refused(raw):
    with pytest.raises(InvalidInput, match="call's envelope"):
        unpack_call(raw)
    with pytest.raises(InvalidInput, match="answer's envelope"):
        unpack_result(b"\xc1")

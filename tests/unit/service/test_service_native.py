"""The encoding between services: every type there and back, nothing copied, nothing pickled."""

import dataclasses
import datetime
import enum
import pathlib
import uuid
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel

import trilith
from trilith.errors import InvalidInput
from trilith.service import spec_of
from trilith.service.client.encoding import _json
from trilith.service.codecs import native
from trilith.service.codecs.request import RequestDecoder
from trilith.service.codecs.result import ResultDecoder, ResultEncoder
from trilith.wire.calls import NATIVE_CONTENT_TYPE


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Box:
    corners: NDArray[np.float32]
    score: float = 0.0
    crop: Image.Image | None = None


class Model(BaseModel):
    name: str
    when: datetime.datetime | None = None


def travel(annotation: Any, value: Any) -> Any:
    """As an argument to a service, and back as its result."""

    def same(x):
        return x

    same.__annotations__ = {"x": annotation, "return": annotation}
    signature = spec_of(trilith.service(same)).methods["same"].signature
    arguments = RequestDecoder(signature, "same").decode(NATIVE_CONTENT_TYPE, native.pack_call([value], {}))
    buffers = ResultEncoder(signature.result, "same").encode_native(arguments.args[0])
    return ResultDecoder(signature, "same").decode([memoryview(buffer) for buffer in buffers])


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@settings(max_examples=25)
@given(PLAIN)
def test_json_types(value):
    assert travel(Any, value) == value


CASES = {
    "bytes": (bytes, st.binary(max_size=600)),
    "list of bytes": (list[bytes], st.lists(st.binary(max_size=600))),
    "tuple": (tuple[int, str], st.tuples(st.integers(0, 9), TEXT)),
    "set": (set[int], st.sets(st.integers(0, 9))),
    "enum": (Colour, st.just(Colour.RED)),
    "datetime": (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    "date": (datetime.date, st.dates()),
    "uuid": (uuid.UUID, st.uuids()),
    "model": (Model, st.builds(Model, name=TEXT, when=st.none() | st.datetimes(timezones=st.just(datetime.UTC)))),
    "models": (dict[str, list[Model]], st.just({"a": [Model(name="b")]})),
}


@pytest.mark.parametrize("case", CASES)
def test_other_types(case):
    annotation, values = CASES[case]

    @settings(max_examples=25)
    @given(values)
    def check(value):
        found = travel(annotation, value)
        assert found == value
        assert type(found) is type(value)

    check()


@settings(max_examples=25)
@given(st.sampled_from(["f4", "u1", "i8", "?", "c8", "M8[s]", "U3"]).flatmap(lambda d: arrays_of.arrays(d, (2, 3))))
def test_arrays(array):
    if array.dtype.kind == "U":  # halves of surrogate pairs are no text, and refused
        assume(not any("\ud800" <= character <= "\udfff" for text in array.flat for character in text))
    found = travel(np.ndarray, array)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(travel(np.ndarray, array.T[::-1]), array.T[::-1])
    [only] = travel(list[np.ndarray], [array])
    np.testing.assert_array_equal(only, array)
    np.testing.assert_array_equal(travel(dict[str, np.ndarray], {"a": array})["a"], array)


def test_images():
    image = Image.effect_noise((5, 4), 50).convert("RGB")
    assert travel(Image.Image, image).tobytes() == image.tobytes()
    assert travel(list[Image.Image], [image])[0].size == (5, 4)
    assert travel(Image.Image, image.convert("P")).mode == "P"


def test_a_dataclass_with_an_array_and_an_image_is_built_again():
    box = Box(np.float32([1, 2]), 0.5, Image.new("L", (2, 2)))
    found = travel(list[Box], [box])[0]
    assert isinstance(found, Box)
    np.testing.assert_array_equal(found.corners, box.corners)
    assert found.corners.dtype == np.float32
    assert found.score == 0.5
    assert found.crop.size == (2, 2)


def test_optional_values():
    assert travel(np.ndarray | None, None) is None
    assert travel(bytes | None, b"a") == b"a"


def test_large_values_are_neither_copied_nor_inlined():
    array, blob = np.zeros(1000, np.float64), bytes(5000)
    buffers = native.pack_call([array, [blob]], {"k": array})
    assert len(buffers) == 4
    assert len(buffers[0]) < 200
    assert np.shares_memory(np.frombuffer(buffers[2], np.float64), array) or buffers[2] is blob
    assert any(buffer is blob for buffer in buffers)
    args, kwargs = native.unpack_call(buffers)
    assert np.shares_memory(kwargs["k"], array)
    assert args[1] == [blob]


class Strange:
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Strange(), "Strange cannot be sent to another service; use JSON types, dataclasses"),
        ([{"a": Strange()}], "Strange cannot be sent"),
        (pathlib.Path("/x"), "means nothing in another process; pass the file's bytes"),
        (np.array([Strange()], dtype=object), "array of object cannot be sent"),
        (lambda: 1, "function cannot be sent"),
    ],
)
def test_what_cannot_be_sent_is_named(value, message):
    with pytest.raises(TypeError, match=message):
        native.pack(value)


@settings(max_examples=25)
@given(st.binary(max_size=60), st.lists(st.binary(max_size=20), max_size=3))
def test_bytes_that_are_no_header_are_refused(header, rest):
    try:
        native.unpack_call([header, *rest])
    except InvalidInput:
        return
    pytest.fail("random bytes were read as a call")  # a two-item list of a list and a dict: never seen


@pytest.mark.parametrize("code", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("place", [[1], [7], [-1], ["a"], [1, "<f8", [99]], [1, "RGB", [9, 9]], [1, "O", [1]], 5])
def test_extensions_that_lie_are_refused(code, place):
    header = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, msgspec.msgpack.encode(place)))
    if code == 3 and place[:1] == [1] if isinstance(place, list) else False:
        assert native.unpack([header, b"abc"]) == b"abc"
        return
    with pytest.raises(InvalidInput):
        native.unpack([header, b"abc"])


def test_no_buffers_at_all():
    with pytest.raises(InvalidInput, match="no buffer"):
        native.unpack([])


@trilith.service
def several(a: int, b: NDArray[np.float32], *, c: bytes = b"") -> int:
    return a


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ([1], {}, "argument 'b' is missing"),
        ([1, np.float32([1]), b"", 4], {}, "takes 2 positional arguments, got 4"),
        ([1], {"a": 1, "b": np.float32([1])}, "argument 'a' is given twice"),
        ([1], {"b": np.float32([1]), "d": 1}, "argument 'd' is not known"),
        ([1, "x"], {}, "several: b: expected an array, got str"),
        ([1, np.array(["x"])], {}, "several: b: expected an array of float32"),
        ([1, np.float32([1])], {"c": "text"}, "several: c: expected bytes, got str"),
    ],
)
def test_wrong_arguments_are_named(args, kwargs, message):
    decoder = RequestDecoder(spec_of(several).methods["several"].signature, "several")
    with pytest.raises(InvalidInput, match=message):
        decoder.decode(NATIVE_CONTENT_TYPE, native.pack_call(args, kwargs))


@pytest.mark.parametrize("code", "?bBhHiIlLqQefd")
def test_every_scalar_of_numpy_is_a_number_in_each_encoding(code):
    [scalar] = np.ones(1, code)
    plain = scalar.item()

    def given() -> type(plain): ...

    result = spec_of(trilith.service(given)).methods["given"].signature.result
    assert native.unpack(native.pack([scalar])) == [plain]
    assert msgspec.json.decode(ResultEncoder(result, "given").encode_plain(scalar)) == plain
    assert msgspec.json.decode(_json([scalar, np.array(scalar)])) == [plain, plain]


@pytest.mark.parametrize("code", "gFDG")
def test_scalars_that_no_number_of_json_is_are_refused_in_one_line(code):
    [scalar] = np.ones(1, code)
    for write in (lambda: native.pack([scalar]), lambda: _json([scalar])):
        with pytest.raises(TypeError, match=r"cannot be sent to another service|is no JSON type"):
            write()

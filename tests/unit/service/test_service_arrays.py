"""numpy arrays as JSON, as `.npy`, in forms; values never change on the way."""

import io
import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

import trilith
from trilith.errors import InvalidInput
from trilith.service.codecs import arrays

DTYPES = st.sampled_from(["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"])
ANY = DTYPES.flatmap(lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, min_side=0, max_side=4)))


@settings(max_examples=25)
@given(ANY)
def test_json_round_trip(array):
    found = arrays.from_nested(json.loads(arrays.to_json(array)), str(array.dtype))
    assert found.dtype == array.dtype
    if array.dtype.kind == "f":  # JSON has no infinity: it is null, as NaN is
        array = np.where(np.isfinite(array), array, np.nan)
    if array.size:
        np.testing.assert_array_equal(found, array)
        assert found.shape == array.shape


@settings(max_examples=25)
@given(st.sampled_from(["c8", ">f4", "<i2", "S3", "U4", "M8[s]", "?"]).flatmap(lambda d: arrays_of.arrays(d, (2, 3))))
def test_npy_round_trip_of_rarer_types(array):
    if array.dtype.kind == "U":  # halves of surrogate pairs are no text, and refused
        assume(not any("\ud800" <= character <= "\udfff" for text in array.flat for character in text))
    found = arrays.from_npy(arrays.to_npy(array))
    assert found.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found, array)


@settings(max_examples=25)
@given(ANY, st.booleans())
def test_npy_round_trip(array, fortran):
    array = np.asfortranarray(array) if fortran else array
    found = arrays.from_npy(arrays.to_npy(array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    raw = io.BytesIO()
    np.save(raw, array)
    np.testing.assert_array_equal(arrays.from_npy(raw.getvalue()), array)


@settings(max_examples=25)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_npy_file_are_refused(body):
    with pytest.raises(InvalidInput):
        arrays.from_npy(body)


@settings(max_examples=25)
@given(ANY, st.data())
def test_a_cut_npy_file_is_refused(array, data):
    whole = arrays.to_npy(array)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(InvalidInput):
        arrays.from_npy(whole[:end])


def test_pickled_objects_are_refused_both_ways():
    raw = io.BytesIO()
    np.save(raw, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidInput, match="array of object is not read"):
        arrays.from_npy(raw.getvalue())
    with pytest.raises(TypeError, match="array of object cannot be sent"):
        arrays.to_npy(np.array([{}], dtype=object))
    with pytest.raises(TypeError, match="array of object cannot be sent"):
        arrays.to_raw(np.array([{}], dtype=object))


def test_a_header_that_claims_too_much_allocates_nothing():
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(raw, {"descr": "<f8", "fortran_order": False, "shape": (2**50,)})
    with pytest.raises(InvalidInput, match="has 9007199254740992 bytes, got 0"):
        arrays.from_npy(raw.getvalue())


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ([[1], [1, 2]], "", "equal lengths"),
        ([1.5], "int64", "expected an array of int64, got float64"),
        ([300], "uint8", "expected uint8, from 0 to 255; got 300"),
        ([-1], "uint8", "got -1"),
        (["1"], "float32", "expected an array of float32"),
        ([2], "bool", "expected an array of bool"),
        ([None], "int32", "got null"),
        ([1e39], "float32", r"expected float32, at most 3.40282e\+38; got 1e\+39"),
        ([[-70000]], "float16", "expected float16, at most 65504; got -70000"),
        ([10**400], "float64", "too large"),
        ([10**400, 0.5], "", "too large"),
        ([2**64], "", "64 bits"),
        ([float("inf")], "", "too large, or an infinity"),
        ([2**64 - 1, -1], "", "64 bits"),
        ([1, "a", True], "", "numbers, bools or text, all of one kind, as nested lists; got bools, integers, text"),
        ([1, True], "float32", "got bools, integers"),
        ([[1], 2], "", "at level 2 a list is beside integers"),
        (["a\0"], "", "U\\+0000"),
        (["\ud800"], "", "no character of Unicode"),
        ("é", "bytes", "does not fit"),
        ([None], "", "got null"),
        ([{}], "float32", "nested lists"),
        (["a", None], "float64", "expected an array of float64, as nested lists; got null, text"),
    ],
)
def test_values_that_do_not_fit_are_refused(value, dtype, message):
    with pytest.raises(InvalidInput, match=message):
        arrays.from_nested(value, dtype)


def test_null_is_nan_in_floats_and_back():
    found = arrays.from_nested([1, None], "float32")
    assert found.dtype == np.float32
    assert np.isnan(found[1])
    assert arrays.to_json(found) == b"[1.0,null]"


def test_a_raw_buffer_is_a_view():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    dtype, shape, raw = arrays.to_raw(array)
    assert np.shares_memory(np.frombuffer(raw, np.uint8), array)
    assert np.shares_memory(arrays.from_raw(raw, dtype, shape), array)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("O", (1,)),
        ("nonsense", (1,)),
        ("<i4", (-1,)),
        ("<i4", ("2",)),
        ("<i4", (3,)),
        ("<i4", (1,) * 40),
        ("V4", (1,)),
        ("<i4", (True,)),
        ("<i4", (0, 2**62)),
        ("<i4", (0, 2**99)),
        ("<i4", (0, 2**47, 2**47)),
        ("<U0", (2**31,)),
        ("|S0", (2**31,)),
        ("<U1", (1,)),
        ("i1,i1,i1,i1", (1,)),
        ("(2,2)i1", (1,)),
        (5, (1,)),
    ],
)
def test_raw_headers_that_lie_are_refused(dtype, shape):
    with pytest.raises(InvalidInput):
        arrays.from_raw(b"abcd", dtype, shape)


@trilith.service
class Arrays:
    @trilith.api
    async def double(self, x: NDArray[np.float32], factor: int = 2) -> NDArray[np.float32]:
        assert x.dtype == np.float32
        return x * np.float32(factor)

    @trilith.api
    def both(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    @trilith.api
    def stack(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return arrays

    @trilith.api
    def nested(self, named: dict[str, NDArray[np.int32]]) -> dict[str, NDArray[np.int32]]:
        assert all(array.dtype == np.int32 for array in named.values())
        return named


def test_json_in_and_out(call_once):
    assert call_once(Arrays, "double", b'{"x": [[1, 2.5]], "factor": 4}').body == b"[[4.0,10.0]]"


def test_the_accept_header_chooses_npy(call_once):
    answer = call_once(Arrays, "double", b'{"x": [1]}', accept="application/x-npy, application/json;q=0.5")
    assert answer.meta.content_type == "application/x-npy"
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.body), allow_pickle=False), np.float32([2]))


def test_an_npy_body_is_the_only_array(call_once):
    body = arrays.to_npy(np.float32([1, 2]))
    assert call_once(Arrays, "double", body, "application/x-npy").body == b"[2.0,4.0]"


def test_an_npy_body_of_another_dtype_is_refused(call_once):
    with pytest.raises(InvalidInput, match=r"Arrays.double: x: expected an array of float32, got complex128"):
        call_once(Arrays, "double", arrays.to_npy(np.array([1j])), "application/x-npy")


def test_nested_arrays(call_once):
    assert call_once(Arrays, "nested", b'{"named": {"a": [1, 2]}}').body == b'{"a":[1,2]}'
    with pytest.raises(InvalidInput, match=r"expected an array of int32, got float64 - at `\$\.named\.a`"):
        call_once(Arrays, "nested", b'{"named": {"a": [1.5]}}')


def test_lists_of_arrays(call_once):
    assert call_once(Arrays, "stack", b'{"arrays": [[1], [2, 3]]}').body == b"[[1],[2,3]]"


@pytest.mark.parametrize("dtype", ["<M8[7Y]", "<m8[2D]", "<M8", "<M8[as]", "<f16", "<c32"])
def test_dtypes_that_are_not_the_same_everywhere_are_not_read(dtype):
    body = io.BytesIO()
    np.save(body, np.zeros(2, dtype))
    with pytest.raises(InvalidInput, match="is not read from a request"):
        arrays.from_npy(body.getvalue())


@pytest.mark.parametrize("points", [[0xD800], [0x110000], [0xFFFFFFFF], [65, 0xDFFF]])
@pytest.mark.parametrize("order", "<>")
def test_text_that_is_no_text_is_neither_read_nor_written(points, order):
    raw = np.array(points, f"{order}u4").tobytes()
    dtype = f"{order}U{len(points)}"
    with pytest.raises(InvalidInput, match="no character of Unicode"):
        arrays.from_raw(raw, dtype, (1,))
    for write in (arrays.to_json, arrays.to_nested, arrays.to_npy, arrays.to_raw):
        with pytest.raises(ValueError, match="no character of Unicode"):
            write(np.frombuffer(raw, dtype))


@pytest.mark.parametrize(
    ("array", "body"),
    [
        (np.array(["2020-01-02", "NaT"], "M8[D]"), b'["2020-01-02",null]'),
        (np.array(["2020-01-02T03:04:05.123"], "M8[ms]"), b'["2020-01-02T03:04:05.123"]'),
        (np.array([[1, 2]], "M8[7Y]"), b'[["1977","1984"]]'),
        (np.array("1970", "M8[2D]"), b'"1970-01-01"'),
        (np.array([2**62], "M8[Y]"), b'["4611686018427389874"]'),
        (np.array([1.5, np.inf], np.longdouble), b"[1.5,null]"),
        (np.array([1 + 2j]), b'["(1+2j)"]'),
        (np.array([1, 2], ">i4"), b"[1,2]"),
        (np.array([1, 2], ">f2"), b"[1.0,2.0]"),
        (np.array(["é", "b"], ">U1"), '["é","b"]'.encode()),
        (np.array(["é".encode()]), '["é"]'.encode()),
        (np.arange(4, dtype=np.int16)[::2], b"[0,2]"),
        ([np.array([1]), np.array(["NaT"], "M8[7Y]")], b"[[1],[null]]"),
        (np.float32(1.5), b"1.5"),
    ],
)
def test_what_arrays_are_in_json(array, body):
    assert arrays.to_json(array) == body


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1], "m8[s]"), "return seconds as floats"),
        (np.array([1], "m8[2D]"), "return seconds as floats"),
        (np.array([b"\xff"]), "utf-8"),
        (np.array([1], np.longdouble) / 3, "send float64"),
        ([[1, 2]], "list is no array"),
        (np.zeros(1, "i4,i4"), "send numbers"),
    ],
)
def test_arrays_that_json_cannot_hold_are_refused(array, message):
    with pytest.raises((TypeError, ValueError), match=message):
        arrays.to_json(array)


def test_values_do_not_change_between_dtypes():
    with pytest.raises(InvalidInput, match="values that it cannot hold"):
        arrays.check_array(np.array([1], "M8[ns]"), "datetime64[D]")
    with pytest.raises(InvalidInput, match="values that it cannot hold"):
        arrays.check_array(np.array(["abc"]), "<U2")
    with pytest.raises(InvalidInput, match="expected float32, at most"):
        arrays.check_array(np.array([1e300]), "float32")
    assert np.isinf(arrays.check_array(np.array([np.inf]), "float32")).all()
    assert arrays.check_array(np.array([1], "M8[D]"), "datetime64[ns]").astype(int) == 86400 * 10**9


@pytest.mark.parametrize("dtype", ["", "float32"])
def test_a_long_text_does_not_make_all_others_as_long(dtype):
    with pytest.raises(InvalidInput, match=r"would take|expected an array of float32, got text"):
        arrays.from_nested(["a" * 100_000, *[""] * 100_000], dtype)


def test_another_version_of_npy_is_refused():
    body = b"\x93NUMPY\x09\x00" + arrays.to_npy(np.zeros(1))[8:]
    with pytest.raises(InvalidInput, match=r"version 1.0, 2.0 or 3.0, got 9.0"):
        arrays.from_npy(body)


def test_words_may_have_different_lengths():
    assert arrays.from_nested([["a", "bcd"], ["", "é"]], "").tolist() == [["a", "bcd"], ["", "é"]]


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904), }",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (4611686018427387904, 0), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (1000,), }",
        "{'descr': '<M8[7Y]', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
        "(" * 5000,
        "-" * 9000 + "1",
        "[" * 180 + "]" * 180,
        "{'descr': '<f4L",
    ],
)
def test_an_absurd_npy_header_is_the_callers_mistake(call_once, header):
    line = header.encode() + b"\n"
    body = b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + b"\0" * 8
    with pytest.raises(InvalidInput, match=r"^Arrays.double: x: "):
        call_once(Arrays, "double", body, "application/x-npy")

"""Types that have a name of their own (`type NAME = ...`), as `NDArray` has from numpy 2.5 on, are what they name."""

import typing

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from trilith.service.signature import Kind, read_type, written_out

Scalar = typing.TypeVar("Scalar", bound=np.generic)
Array = TypeAliasType("Array", np.ndarray[tuple[typing.Any, ...], np.dtype[Scalar]], type_params=(Scalar,))
Numbers = TypeAliasType("Numbers", list[int])
FLOATS = np.ndarray[tuple[typing.Any, ...], np.dtype[np.float32]]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Array[np.float32], FLOATS),
        (list[Array[np.float32]], list[FLOATS]),
        (Array[np.float32] | None, FLOATS | None),
        (dict[str, list[Numbers]], dict[str, list[list[int]]]),
        (typing.Annotated[Numbers, "few"], typing.Annotated[list[int], "few"]),
        (typing.Literal["Numbers"], typing.Literal["Numbers"]),
        (int | None, int | None),
        (list, list),
    ],
)
def test_what_a_name_stands_for_is_written_out(annotation, expected):
    assert written_out(annotation) == expected


def test_an_array_behind_a_name_travels_as_one():
    value = read_type(written_out(Array[np.float32]))
    assert (value.kind, value.dtype) == (Kind.ARRAY, "float32")


def test_a_name_that_stands_in_itself_ends():
    tree = TypeAliasType("tree", "list[tree]")
    assert written_out(tree) == "list[tree]"

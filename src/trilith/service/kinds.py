"""What one annotation says of a value: its kind, and with it the wire formats.

Rule: this file imports neither numpy nor PIL nor pandas. A class of theirs can only stand in an annotation when the
user's program has imported them, so `sys.modules` is asked.
"""

from __future__ import annotations

import enum
import pathlib
import sys
import types
import typing
from dataclasses import dataclass
from typing import Any, Final

from trilith.errors import InvalidConfig
from trilith.service.constraints import Constraint, ContentType, DType, Frame, Shape, constraint_in


class Kind(enum.StrEnum):
    """How a value travels."""

    JSON = "json"
    ARRAY = "array"
    FRAME = "frame"
    IMAGE = "image"
    BYTES = "bytes"
    FILE = "file"


BINARY_KINDS: Final = frozenset({Kind.IMAGE, Kind.BYTES, Kind.FILE})


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType:
    """The type of one parameter or result.

    Attributes:
        annotation: the annotation itself.
        kind: how the value (or each item of a list) travels.
        many: a list of values of a kind other than JSON.
        optional: None is allowed too.
        plain: JSON types alone (int, float, str, bool, None, list, dict): the fast decoder can read it.
        dtype: numpy's name of an array's dtype, or "" when the annotation leaves it open.
        library: whose class it is, where several have one of a kind: `torch` of an array; `dataframe` or `series` (of
            pandas) or `table` (of pyarrow) of a frame.
        constraint: what `Annotated` asks of it: `Shape` of an array, `Frame` of a frame, `ContentType` of the others.
        metadata: what else `Annotated` has of a value that is no JSON: pydantic reads it.
        upload: of a union of JSON types with a file, bytes or an image (`str | Path | None`): what an upload becomes.
    """

    annotation: Any
    kind: Kind = Kind.JSON
    many: bool = False
    optional: bool = False
    plain: bool = False
    dtype: str = ""
    library: str = ""
    constraint: Constraint | None = None
    metadata: tuple[Any, ...] = ()
    upload: ValueType | None = None


def _loaded(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    return getattr(found, name, None) if found is not None else None


def bare(annotation: Any) -> Any:
    """The type inside `Annotated`."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def is_array(annotation: Any) -> bool:
    """Whether an annotation is `numpy.ndarray` or `NDArray[...]`."""
    array = _loaded("numpy", "ndarray")
    return array is not None and (annotation is array or typing.get_origin(annotation) is array)


def array_library(annotation: Any) -> str:
    """`torch` of `torch.Tensor`, "" of every other annotation."""
    tensor = _loaded("torch", "Tensor")
    return "torch" if tensor is not None and annotation is tensor else ""


_FRAMES: Final = (
    ("pandas", "DataFrame", "dataframe"),
    ("pandas", "Series", "series"),
    ("pyarrow", "Table", "table"),
)


def frame_library(annotation: Any) -> str:
    """`dataframe`, `series` or `table` of a class of pandas or pyarrow, "" of every other annotation."""
    plain = typing.get_origin(annotation) or annotation
    for module, name, library in _FRAMES:
        found = _loaded(module, name)
        if found is not None and plain is found:
            return library
    return ""


def is_image(annotation: Any) -> bool:
    """Whether an annotation is `PIL.Image.Image`."""
    image = _loaded("PIL.Image", "Image")
    return image is not None and annotation is image


def is_message(annotation: Any) -> bool:
    """Whether an annotation is a class of protobuf messages, as `protoc` makes them."""
    message = _loaded("google.protobuf.message", "Message")
    return message is not None and isinstance(annotation, type) and issubclass(annotation, message)


def array_dtype(annotation: Any) -> str:
    """numpy's name of the dtype in `NDArray[...]`, or "" when it is left open."""
    generic = _loaded("numpy", "generic")
    dtype_arguments = typing.get_args(annotation)[1:2]
    for scalar in typing.get_args(dtype_arguments[0]) if dtype_arguments else ():
        if isinstance(scalar, type) and issubclass(scalar, generic):
            try:
                return str(_loaded("numpy", "dtype")(scalar))
            except TypeError:  # an abstract scalar type, such as numpy.floating, names no dtype
                return ""
    return ""


def kind_of(annotation: Any) -> Kind:
    """How one value of that type travels; what is none of the special types is JSON."""
    inner = bare(annotation)
    if is_array(inner) or array_library(inner):
        return Kind.ARRAY
    if frame_library(inner):
        return Kind.FRAME
    if is_image(inner):
        return Kind.IMAGE
    if inner is bytes or inner is bytearray or inner is memoryview:
        return Kind.BYTES
    if isinstance(inner, type) and issubclass(inner, pathlib.PurePath):
        return Kind.FILE
    return Kind.JSON


def union_members(annotation: Any) -> tuple[Any, ...] | None:
    """The members of `A | B` or `Union[A, B]`, or None when it is no union."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return None


def is_plain(annotation: Any) -> bool:
    """Whether a type is made of JSON's own types alone."""
    if annotation in (int, float, str, bool, None, type(None), list, dict):
        return True
    members = union_members(annotation)
    if members is not None:
        return all(is_plain(member) for member in members)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return is_plain(arguments[0])
    if origin is dict:
        return arguments[0] is str and is_plain(arguments[1])
    return False


def read_type(annotation: Any) -> ValueType:
    """What an annotation says of a value.

    Raises:
        InvalidConfig: it asks what values of that type do not have.
    """
    inner, metadata = _opened(annotation)
    optional = many = False
    members = union_members(inner)
    if members is not None and type(None) in members and len(members) == 2:
        optional = True
        inner, more = _opened(next(member for member in members if member is not type(None)))
        metadata += more
    if typing.get_origin(inner) is list and kind_of(typing.get_args(inner)[0]) is not Kind.JSON:
        many = True
        inner, more = _opened(typing.get_args(inner)[0])
        metadata += more
    kind = kind_of(inner)
    if kind is Kind.JSON:
        upload = _upload_in(members)
        return ValueType(annotation=annotation, optional=optional, plain=is_plain(annotation), upload=upload)
    _check_constraints(metadata, kind, annotation)
    declared = constraint_in(metadata, DType)
    return ValueType(
        annotation=annotation,
        kind=kind,
        many=many,
        optional=optional,
        dtype=array_dtype(inner) or (declared.name if declared is not None else "") if kind is Kind.ARRAY else "",
        library=array_library(inner) or frame_library(inner),
        constraint=constraint_in(metadata, _CONSTRAINTS[kind]),
        metadata=tuple(one for one in metadata if not isinstance(one, CONSTRAINTS)),
    )


def _upload_in(members: tuple[Any, ...] | None) -> ValueType | None:
    """The one member of a union that an upload becomes."""
    found = [member for member in members or () if kind_of(member) in BINARY_KINDS]
    return read_type(found[0]) if len(found) == 1 else None


CONSTRAINTS: Final = (Shape, DType, ContentType, Frame)
"""The classes of what `Annotated` may have of ours."""

_CONSTRAINTS: Final[dict[Kind, type]] = {
    Kind.ARRAY: Shape,
    Kind.FRAME: Frame,
    Kind.IMAGE: ContentType,
    Kind.BYTES: ContentType,
    Kind.FILE: ContentType,
}


def _opened(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type inside `Annotated`, and what it carries."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *metadata = typing.get_args(annotation)
        return inner, tuple(metadata)
    return annotation, ()


def pushed_inside(annotation: Any, metadata: tuple[Any, ...]) -> Any:
    """The type with those constraints of ours at what they are about: the files of `list[Path] | None`, say."""
    ours = tuple(one for one in metadata if isinstance(one, CONSTRAINTS))
    if not ours:
        return annotation
    if kind_of(annotation) is Kind.JSON:
        members = union_members(annotation)
        if members is not None:
            each = (one if one is type(None) else pushed_inside(one, ours) for one in members)
            return typing.Union[tuple(each)]  # noqa: UP007  built from a tuple
        if typing.get_origin(annotation) is list:
            return list[pushed_inside(typing.get_args(annotation)[0], ours)]  # type: ignore[misc]  # a type that is made
    return typing.Annotated[(annotation, *ours)]


def _check_constraints(metadata: tuple[Any, ...], kind: Kind, annotation: Any) -> None:
    allowed = (Shape, DType) if kind is Kind.ARRAY else (_CONSTRAINTS[kind],)
    for one in metadata:
        if isinstance(one, CONSTRAINTS) and not isinstance(one, allowed):
            names = " or ".join(f"trilith.{each.__name__}" for each in allowed)
            raise InvalidConfig(
                f"{shown_type(annotation)}: trilith.{type(one).__name__} says nothing of this type; it takes {names}"
            )


def shown_type(annotation: Any) -> str:
    """An annotation as a person would write it."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "")

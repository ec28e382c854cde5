"""What the annotations of a method say: the kind of each value, and with it the wire formats.

Rule 1: annotations are read once, at declaration; a request never looks at them.
Rule 2: this file imports neither numpy nor PIL nor pydantic. A class of theirs can only stand in an annotation when the
user's program has imported them, so `sys.modules` is asked.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import pathlib
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from trilith.errors import InvalidConfig

_POSITIONAL_ONLY: Final = inspect.Parameter.POSITIONAL_ONLY
_KEYWORD_ONLY: Final = inspect.Parameter.KEYWORD_ONLY
_ASYNC_STREAMS: Final = (
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
)
_PLAIN_STREAMS: Final = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
)
_ASYNC_TAKEN: Final = (collections.abc.AsyncIterator, collections.abc.AsyncIterable)
_PLAIN_TAKEN: Final = (collections.abc.Iterator,)  # an Iterable[T] that is taken is a list
MISSING: Final = inspect.Parameter.empty
"""Stands for the default of a parameter that has none."""


class Kind(enum.StrEnum):
    """How a value travels."""

    JSON = "json"
    ARRAY = "array"
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
    """

    annotation: Any
    kind: Kind = Kind.JSON
    many: bool = False
    optional: bool = False
    plain: bool = False
    dtype: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterType:
    """One parameter of a method. `default` is `MISSING` when a caller must give it."""

    name: str
    value: ValueType
    default: Any = MISSING
    keyword_only: bool = False

    @property
    def required(self) -> bool:
        """Whether a caller must give it."""
        return self.default is MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSignature:
    """A method as its callers see it: for a batched method the types of ONE call, not of the list.

    Attributes:
        parameters: in order of declaration; `self` and the stream that it takes are left out.
        result: what a call answers; of a method that streams, one item.
        root: the one positional-only parameter is the whole body.
        asynchronous: it runs on an event loop: declared with `async def`, or answers with an asynchronous iterator.
        inspected: Python's signature with resolved annotations, for help and type checks of a caller.
        streams: it answers with a stream of items.
        taken: the parameter that is a stream of items, None for none; its `value` is the type of one.
    """

    parameters: tuple[ParameterType, ...]
    result: ValueType
    root: bool
    asynchronous: bool
    inspected: inspect.Signature
    streams: bool = False
    taken: ParameterType | None = None

    @property
    def streaming(self) -> bool:
        """Whether there are items, either way."""
        return self.streams or self.taken is not None

    @property
    def raw_parameter(self) -> ParameterType | None:
        """The parameter that a raw (binary) body may stand for: the only binary one, the others having defaults."""
        binary = [p for p in self.parameters if p.value.kind in BINARY_KINDS and not p.value.many]
        others = [p for p in self.parameters if p.required and p not in binary]
        return binary[0] if len(binary) == 1 and not others else None

    @property
    def npy_parameter(self) -> ParameterType | None:
        """The parameter that an `application/x-npy` body stands for: the only array, the others having defaults."""
        arrays = [p for p in self.parameters if p.value.kind is Kind.ARRAY and not p.value.many]
        others = [p for p in self.parameters if p.required and p not in arrays]
        return arrays[0] if len(arrays) == 1 and not others else None


def _loaded(module: str, name: str) -> Any:
    found = sys.modules.get(module)
    return getattr(found, name, None) if found is not None else None


def _bare(annotation: Any) -> Any:
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation


def is_array(annotation: Any) -> bool:
    """Whether an annotation is `numpy.ndarray` or `NDArray[...]`."""
    array = _loaded("numpy", "ndarray")
    return array is not None and (annotation is array or typing.get_origin(annotation) is array)


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
    bare = _bare(annotation)
    if is_array(bare):
        return Kind.ARRAY
    if is_image(bare):
        return Kind.IMAGE
    if bare is bytes or bare is bytearray or bare is memoryview:
        return Kind.BYTES
    if isinstance(bare, type) and issubclass(bare, pathlib.PurePath):
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
    """What an annotation says of a value."""
    inner, optional, many = _bare(annotation), False, False
    members = union_members(inner)
    if members is not None and type(None) in members and len(members) == 2:
        optional = True
        inner = _bare(next(member for member in members if member is not type(None)))
    if typing.get_origin(inner) is list and kind_of(typing.get_args(inner)[0]) is not Kind.JSON:
        many = True
        inner = _bare(typing.get_args(inner)[0])
    kind = kind_of(inner)
    if kind is Kind.JSON:
        return ValueType(annotation=annotation, optional=optional, plain=is_plain(annotation))
    dtype = array_dtype(inner) if kind is Kind.ARRAY else ""
    return ValueType(annotation=annotation, kind=kind, many=many, optional=optional, dtype=dtype)


def resolve_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function or class, with names resolved, aliases written out and `Annotated` kept.

    Raises:
        NameError: a name is not defined (yet).
    """
    return {name: written_out(hint) for name, hint in typing.get_type_hints(function, include_extras=True).items()}


def written_out(annotation: Any, inside: tuple[Any, ...] = ()) -> Any:
    """The annotation with what stands behind each `type NAME = ...`; `NDArray` is such a name from numpy 2.5 on.

    `inside`: the aliases that it stands in. One that stands in itself stays a name there.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    alias = annotation if origin is None else origin
    if type(alias).__name__ == "TypeAliasType":  # of typing, or of typing_extensions
        if alias in inside:
            return annotation
        value = alias.__value__
        if arguments and getattr(value, "__parameters__", ()):
            value = value[arguments]
        return written_out(value, (*inside, alias))
    if not arguments or origin is typing.Literal:
        return annotation
    if origin is typing.Annotated:
        first = written_out(arguments[0], inside)
        return annotation if first is arguments[0] else typing.Annotated[(first, *arguments[1:])]
    parts = tuple(written_out(part, inside) for part in arguments)
    if all(part is argument for part, argument in zip(parts, arguments, strict=True)):
        return annotation
    if union_members(annotation) is not None:
        return typing.Union[parts]  # noqa: UP007  built from a tuple
    return annotation.__origin__[parts]


def read_signature(
    function: Callable[..., Any], where: str, *, is_method: bool = True, batched: bool = False
) -> MethodSignature:
    """Reads a method's annotations.

    Args:
        function: the plain function; its first parameter is `self` when `is_method`.
        where: `Ocr.read`, for messages.
        is_method: whether the first parameter is the instance.
        batched: parameters and result are lists, of which a caller gives and gets one item.

    Raises:
        InvalidConfig: something is missing or cannot be offered; the message says what to write.
        NameError: an annotation names something that is not defined (yet).
    """
    inspected = inspect.signature(function)
    declared = list(inspected.parameters.values())
    if is_method:
        if not declared:
            raise InvalidConfig(f"{where} is a method without `self`: write `def {function.__name__}(self, ...)`")
        declared = declared[1:]
    hints = resolve_hints(function)
    _check_shape(declared, where)
    streams = _item_type(hints.get("return"), _ASYNC_STREAMS + _PLAIN_STREAMS) is not None
    asynchronous = _is_asynchronous(function, hints.get("return"), where)
    taken = _taken(declared, hints, where, asynchronous=asynchronous)
    if batched and (streams or taken is not None):
        raise InvalidConfig(
            f"{where} is batched and {'answers with' if streams else 'takes'} a stream; a batch is made of single calls"
            " with one answer each: leave batch= out"
        )
    valued = [parameter for parameter in declared if taken is None or parameter.name != taken.name]
    parameters = tuple(_parameter(parameter, hints, where, batched) for parameter in valued)
    if batched and not parameters:
        raise InvalidConfig(f"{where} is batched and has no parameter: there is nothing to join")
    result = _result(hints, where, batched)
    root = len(declared) == 1 and declared[0].kind is _POSITIONAL_ONLY and taken is None
    shown = {parameter.name: parameter.value.annotation for parameter in parameters}
    visible = [original.replace(annotation=shown.get(original.name, hints.get(original.name))) for original in declared]
    returned = hints["return"] if streams else result.annotation
    return MethodSignature(
        parameters=parameters,
        result=result,
        root=root,
        asynchronous=asynchronous,
        inspected=inspect.Signature(visible, return_annotation=returned),
        streams=streams,
        taken=taken,
    )


def _item_type(annotation: Any, kinds: tuple[Any, ...]) -> Any:
    """The type of the items of a stream; None when the annotation is none of the kinds, `Any` when it does not say."""
    bare = _bare(annotation)
    if (typing.get_origin(bare) or bare) not in kinds:
        return None
    arguments = typing.get_args(bare)
    return arguments[0] if arguments else Any


def _is_asynchronous(function: Callable[..., Any], returned: Any, where: str) -> bool:
    """Whether the method runs on an event loop.

    Raises:
        InvalidConfig: what it is and what it says that it returns do not fit.
    """
    generates = inspect.isgeneratorfunction(function)
    generates_async = inspect.isasyncgenfunction(function)
    streams_async = _item_type(returned, _ASYNC_STREAMS) is not None
    streams_plain = _item_type(returned, _PLAIN_STREAMS) is not None
    if generates and not streams_plain:
        raise InvalidConfig(f"{where} is a generator: write `-> Iterator[TYPE]`, the type of what it yields")
    if generates_async and not streams_async:
        raise InvalidConfig(f"{where} is an async generator: write `-> AsyncIterator[TYPE]`, of what it yields")
    if inspect.iscoroutinefunction(function):
        if streams_async or streams_plain:
            raise InvalidConfig(
                f"{where} is an `async def` without a `yield` and says that it returns {shown_type(returned)}; yield"
                " the items in it, or make it a plain `def` that returns the iterator"
            )
        return True
    return generates_async or streams_async


def _taken(
    declared: list[inspect.Parameter], hints: dict[str, Any], where: str, *, asynchronous: bool
) -> ParameterType | None:
    """The parameter that is a stream of items.

    Raises:
        InvalidConfig: there are two of them, or it cannot be read in a method of that kind.
    """
    found: list[ParameterType] = []
    for parameter in declared:
        annotation = hints.get(parameter.name)
        kinds, other = (_ASYNC_TAKEN, _PLAIN_TAKEN) if asynchronous else (_PLAIN_TAKEN, _ASYNC_TAKEN)
        item = _item_type(annotation, kinds)
        if item is None and _item_type(annotation, other) is not None:
            wanted, kind = ("AsyncIterator", "an `async def`") if asynchronous else ("Iterator", "a plain `def`")
            raise InvalidConfig(
                f"{where}: parameter {parameter.name!r} is a {shown_type(annotation)}, which {kind} cannot read: write"
                f" {wanted}[...]"
            )
        if item is None:
            continue
        if parameter.default is not MISSING:
            raise InvalidConfig(f"{where}: parameter {parameter.name!r} is a stream and has a default; leave it out")
        _check_item(item, f"{where}: parameter {parameter.name!r}")
        keyword_only = parameter.kind is _KEYWORD_ONLY
        found.append(ParameterType(name=parameter.name, value=read_type(item), keyword_only=keyword_only))
    if len(found) > 1:
        names = " and ".join(repr(parameter.name) for parameter in found)
        raise InvalidConfig(f"{where} takes two streams, {names}; a call has one: join them, or take lists")
    return found[0] if found else None


def _check_shape(declared: list[inspect.Parameter], where: str) -> None:
    for parameter in declared:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise InvalidConfig(f"{where}: *{parameter.name} has no name on the wire; write each parameter out")
    if len(declared) > 1 and any(parameter.kind is _POSITIONAL_ONLY for parameter in declared):
        names = ", ".join(parameter.name for parameter in declared)
        raise InvalidConfig(
            f"{where} has two bodies: a positional-only parameter is the whole body, so it must be the only one, "
            f"got ({names}); remove the '/' to send an object keyed by parameter name"
        )


def _parameter(parameter: inspect.Parameter, hints: dict[str, Any], where: str, batched: bool) -> ParameterType:
    if parameter.name not in hints:
        raise InvalidConfig(
            f"{where}: parameter {parameter.name!r} has no annotation, and the wire format comes from it; "
            f"write for example `{parameter.name}: list[float]`"
        )
    annotation = hints[parameter.name]
    if batched:
        annotation = _item(annotation, f"{where}: parameter {parameter.name!r}")
    default: Any = MISSING if batched else parameter.default
    if type(default).__name__ == "FieldInfo":
        raise InvalidConfig(
            f"{where}: write `{parameter.name}: Annotated[TYPE, Field(...)] = DEFAULT`, so that plain calls work too"
        )
    _check_not_stream(annotation, f"{where}: parameter {parameter.name!r}")
    return ParameterType(
        name=parameter.name,
        value=read_type(annotation),
        default=default,
        keyword_only=parameter.kind is _KEYWORD_ONLY,
    )


def _result(hints: dict[str, Any], where: str, batched: bool) -> ValueType:
    if "return" not in hints:
        raise InvalidConfig(f"{where} has no return annotation, and the wire format comes from it; write `-> TYPE`")
    annotation = hints["return"]
    if batched:
        annotation = _item(annotation, f"{where}: the result")
    item = _item_type(annotation, _ASYNC_STREAMS + _PLAIN_STREAMS)
    if item is not None:
        _check_item(item, f"{where}: the result")
        annotation = item
    return read_type(annotation)


def _item(annotation: Any, where: str) -> Any:
    if typing.get_origin(_bare(annotation)) is not list:
        raise InvalidConfig(
            f"{where} of a batched method must be list[...], one item a call; got {shown_type(annotation)}"
        )
    return typing.get_args(_bare(annotation))[0]


def _check_item(annotation: Any, where: str) -> None:
    _check_not_stream(annotation, f"{where}: an item")
    if read_type(annotation).kind is Kind.FILE:
        raise InvalidConfig(f"{where} is a stream of files; make it one of bytes")


def _check_not_stream(annotation: Any, where: str) -> None:
    if _item_type(annotation, (*_ASYNC_STREAMS, collections.abc.Iterator, collections.abc.Generator)) is not None:
        raise InvalidConfig(
            f"{where} is a stream ({shown_type(annotation)}), which has no place there: write list[...]"
        )


def shown_type(annotation: Any) -> str:
    """An annotation as a person would write it."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "")

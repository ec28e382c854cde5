"""What the annotations of a method say.

Rule: annotations are read once, at declaration; a request never looks at them.
"""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from trilith.errors import InvalidConfig
from trilith.service.kinds import BINARY_KINDS as BINARY_KINDS
from trilith.service.kinds import Kind as Kind
from trilith.service.kinds import ValueType as ValueType
from trilith.service.kinds import array_dtype as array_dtype
from trilith.service.kinds import bare as bare
from trilith.service.kinds import is_message as is_message
from trilith.service.kinds import is_plain as is_plain
from trilith.service.kinds import kind_of as kind_of
from trilith.service.kinds import read_type as read_type
from trilith.service.kinds import shown_type as shown_type
from trilith.service.kinds import union_members as union_members

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
_WEB_FRAMEWORKS: Final = ("fastapi", "litestar", "starlette")
_INSTEAD: Final = {
    "BackgroundTasks": "leave it out and start the work yourself",
    "Request": "ask trilith.context() for headers and the like, or mount an application (docs/mounts.md)",
    "Response": "set headers and the status through trilith.context()",
    "UploadFile": "write pathlib.Path for a file, bytes for its content, or PIL.Image.Image",
    "WebSocket": "take and return AsyncIterator[...] (docs/streams.md), or mount an application (docs/mounts.md)",
}
"""Classes of web frameworks, and what to write here."""

MISSING: Final = inspect.Parameter.empty
"""Stands for the default of a parameter that has none."""


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
        return self._only(Kind.ARRAY)

    @property
    def frame_parameter(self) -> ParameterType | None:
        """The parameter that a body of CSV, Parquet or Arrow stands for: the only frame, the others having defaults."""
        return self._only(Kind.FRAME)

    @property
    def text_parameter(self) -> ParameterType | None:
        """The parameter that a body of `text/plain` stands for: the only text, the others having defaults.

        None where the method reads a raw body of any type.
        """
        texts = [p for p in self.parameters if bare(p.value.annotation) is str and (p.required or self.root)]
        others = [p for p in self.parameters if p.required and p not in texts]
        return texts[0] if len(texts) == 1 and not others and self.raw_parameter is None else None

    def _only(self, kind: Kind) -> ParameterType | None:
        found = [p for p in self.parameters if p.value.kind is kind and not p.value.many]
        others = [p for p in self.parameters if p.required and p not in found]
        return found[0] if len(found) == 1 and not others else None


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
    inner = bare(annotation)
    if (typing.get_origin(inner) or inner) not in kinds:
        return None
    arguments = typing.get_args(inner)
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
    _check_not_of_web(annotation, f"{where}: parameter {parameter.name!r}")
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
    if typing.get_origin(bare(annotation)) is not list:
        raise InvalidConfig(
            f"{where} of a batched method must be list[...], one item a call; got {shown_type(annotation)}"
        )
    return typing.get_args(bare(annotation))[0]


def _check_item(annotation: Any, where: str) -> None:
    _check_not_stream(annotation, f"{where}: an item")
    if read_type(annotation).kind is Kind.FILE:
        raise InvalidConfig(f"{where} is a stream of files; make it one of bytes")


def _check_not_of_web(annotation: Any, where: str) -> None:
    """Refuses classes that only web frameworks can give, though pydantic knows some of them."""
    inner = bare(annotation)
    module, name = getattr(inner, "__module__", ""), getattr(inner, "__name__", "")
    if isinstance(inner, type) and str(module).partition(".")[0] in _WEB_FRAMEWORKS and name in _INSTEAD:
        raise InvalidConfig(
            f"{where} is a {name} of {module.partition('.')[0]}, which has no place here: {_INSTEAD[name]}"
        )
    for argument in typing.get_args(inner):
        _check_not_of_web(argument, where)


def _check_not_stream(annotation: Any, where: str) -> None:
    if _item_type(annotation, (*_ASYNC_STREAMS, collections.abc.Iterator, collections.abc.Generator)) is not None:
        raise InvalidConfig(
            f"{where} is a stream ({shown_type(annotation)}), which has no place there: write list[...]"
        )

"""Annotations as validators: pydantic reads and writes every type that is not one of JSON's own.

Rule 1: this is the one file that imports pydantic, and it is imported when a method needs it.
Rule 2: reading is strict, as the fast decoder's is: "1" is not a number, 1.5 is not an int. Dates, enums, UUIDs and
decimals are read from their text, since JSON has no other form for them.
Rule 3: arrays, images and bytes may stand anywhere inside a type (a list, a dict, a dataclass); as JSON they are nested
lists and base64 text.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import sys
import typing
from collections.abc import Callable
from typing import Any, Final, Literal, NotRequired

import msgspec
import pydantic
import pydantic_core
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import TypedDict, is_typeddict

from trilith.errors import InvalidConfig, InvalidInput
from trilith.service.codecs import special
from trilith.service.codecs.exact import exact, finite, has_calendar, strict_scalars
from trilith.service.codecs.wording import no_json
from trilith.service.kinds import (
    CONSTRAINTS,
    Kind,
    is_message,
    kind_of,
    pushed_inside,
    read_type,
    shown_type,
    union_members,
)
from trilith.service.signature import MethodSignature, resolve_hints

if typing.TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

REF_TEMPLATE: Final = "#/components/schemas/{model}"
_SHOWN_ERRORS: Final = 20
_SHOWN_CHARACTERS: Final = 60
_WANTED: Final = {
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "an array in JSON",
    "dict_type": "an object in JSON",
    "dataclass_type": "an object in JSON",
    "model_type": "an object in JSON",
}
"""What a type is for those who fill in forms, by pydantic's name of the error."""

_NO_JSON: Final = re.compile(rb"NaN|Infinity")


class _Special:
    """Annotates a type that pydantic does not know with how to read and write it."""

    def __init__(self, annotation: Any) -> None:
        self.one = read_type(annotation)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """pydantic's hook: a function that reads, a function that writes."""
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(self._write, when_used="json"),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """pydantic's hook: the JSON form."""
        return special.schema(self.one)

    def _read(self, value: Any) -> Any:
        try:
            return special.read(value, self.one)
        except InvalidInput as error:
            raise PydanticCustomError("invalid_input", "{reason}", {"reason": error.message}) from error

    def _write(self, value: Any) -> Any:
        return special.write(value, self.one)


def schema_of_field(source: Any, constraint: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    """The schema of a field of a pydantic model that has a constraint of ours.

    Raises:
        InvalidConfig: its type is one of JSON's.
    """
    if kind_of(source) is Kind.JSON:
        raise InvalidConfig(f"trilith.{type(constraint).__name__} says nothing of {shown_type(source)}")
    found: core_schema.CoreSchema = handler.generate_schema(
        typing.Annotated[Any, _Special(typing.Annotated[source, constraint])]
    )
    return found


class _Message:
    """Annotates a class of protobuf messages with their canonical JSON."""

    def __init__(self, target: type) -> None:
        self.target = target

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """pydantic's hook: a function that reads, a function that writes."""
        return core_schema.no_info_plain_validator_function(
            self._read,
            serialization=core_schema.plain_serializer_function_ser_schema(self._write, when_used="json"),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """pydantic's hook: the JSON form."""
        return {"type": "object", "title": self.target.__name__}

    def _read(self, value: Any) -> Any:
        from google.protobuf import json_format

        if isinstance(value, self.target):
            return value
        try:
            if not isinstance(value, dict):
                raise json_format.ParseError(f"expected an object, got {type(value).__name__}")
            return json_format.ParseDict(value, self.target())
        except json_format.ParseError as error:
            raise PydanticCustomError("invalid_message", "{reason}", {"reason": str(error)}) from error

    def _write(self, value: Any) -> Any:
        from google.protobuf import json_format

        return json_format.MessageToDict(value)


class _Fields:
    """Annotates a dataclass that has special types among its fields with a schema of rewritten fields."""

    def __init__(self, target: type) -> None:
        self.target = target

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """pydantic's hook: the dataclass, its fields rewritten."""
        hints = resolve_hints(self.target)
        fields, names = [], []
        for field in dataclasses.fields(self.target):
            if not field.init:
                continue
            names.append(field.name)
            inner: core_schema.CoreSchema = handler.generate_schema(rewrite(hints[field.name]))
            if field.default is not dataclasses.MISSING:
                inner = core_schema.with_default_schema(inner, default=field.default)
            elif field.default_factory is not dataclasses.MISSING:
                inner = core_schema.with_default_schema(inner, default_factory=field.default_factory)
            fields.append(core_schema.dataclass_field(field.name, inner, kw_only=True))
        arguments = core_schema.dataclass_args_schema(self.target.__name__, fields)
        return core_schema.dataclass_schema(self.target, arguments, names)


def _has_special(annotation: Any, seen: frozenset[type] = frozenset()) -> bool:
    if kind_of(annotation) is not Kind.JSON or is_message(annotation):
        return True
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        if annotation in seen:
            return False
        hints = resolve_hints(annotation)
        return any(_has_special(hint, seen | {annotation}) for hint in hints.values())
    if is_typeddict(annotation):
        if annotation in seen:
            return False
        if type(annotation).__module__ == "typing" and sys.version_info < (3, 12):
            return True  # pydantic reads those of `typing` from Python 3.12 on
        return any(_has_special(hint, seen | {annotation}) for hint in resolve_hints(annotation).values())
    return any(_has_special(part, seen) for part in typing.get_args(annotation))


def _typed_dict(annotation: Any) -> Any:
    """The same TypedDict with its values rewritten."""
    found = TypedDict(  # type: ignore[misc]  # its keys are those of the given one
        annotation.__name__,
        {
            name: NotRequired[_inner(hint)] if _is_optional(annotation, name, hint) else _inner(hint)
            for name, hint in resolve_hints(annotation).items()
        },
    )
    found.__pydantic_config__ = getattr(annotation, "__pydantic_config__", {})  # type: ignore[attr-defined]
    return found


def _is_optional(annotation: Any, name: str, hint: Any) -> bool:
    origin = typing.get_origin(hint)  # where annotations are texts, `__optional_keys__` knows nothing of it
    return origin is NotRequired or (name in annotation.__optional_keys__ and origin is not typing.Required)


def _inner(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Required, NotRequired):
        hint = typing.get_args(hint)[0]
    return rewrite(hint)


def rewrite(annotation: Any) -> Any:
    """The annotation with arrays, images, bytes and files marked, wherever they stand in it."""
    kind = kind_of(annotation)
    if kind is not Kind.JSON:
        # What else the annotation asks is pydantic's to look at, once the value is read.
        return typing.Annotated[(Any, _Special(annotation), *read_type(annotation).metadata)]
    if not _has_special(annotation):
        return annotation
    if is_message(annotation):
        return typing.Annotated[Any, _Message(annotation)]
    if is_typeddict(annotation):
        return _typed_dict(annotation)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return typing.Annotated[annotation, _Fields(annotation)]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if union_members(annotation) is not None:
        return typing.Union[tuple(rewrite(member) for member in arguments)]  # noqa: UP007  built from a tuple
    if origin is typing.Annotated:
        inner = rewrite(pushed_inside(arguments[0], arguments[1:]))
        rest = tuple(one for one in arguments[1:] if not isinstance(one, CONSTRAINTS))
        return typing.Annotated[(inner, *rest)] if rest else inner
    return origin[tuple(part if part is Ellipsis else rewrite(part) for part in arguments)]


Adapter = pydantic.TypeAdapter[Any]


def adapter_of(annotation: Any, where: str) -> Adapter:
    """The validator of one type.

    Raises:
        InvalidConfig: pydantic cannot read such a type from JSON.
    """
    return _adapter(lambda: rewrite(annotation), where, shown_type(annotation))


def body_adapter(signature: MethodSignature, where: str) -> Adapter:
    """The validator of a whole JSON body: an object keyed by parameter name, nothing missing, nothing unknown.

    Raises:
        InvalidConfig: pydantic cannot read one of the types from JSON.
    """
    for parameter in signature.parameters:  # one by one first, so that the message names the parameter
        adapter_of(parameter.value.annotation, f"{where}: parameter {parameter.name!r}")
    return _adapter(lambda: _body(signature), where, "the parameters")


def _body(signature: MethodSignature) -> Any:
    body = TypedDict(  # type: ignore[misc]  # the names are known when the service is declared, not when this is checked
        "Body",
        {
            p.name: rewrite(p.value.annotation) if p.required else NotRequired[rewrite(p.value.annotation)]
            for p in signature.parameters
        },
    )
    body.__pydantic_config__ = pydantic.ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    return body


def _adapter(make: Callable[[], Any], where: str, shown: str) -> Adapter:
    try:
        adapter = pydantic.TypeAdapter(make())
        # A nested model's own validator, which pydantic has built already, would not be as exact: False leaves it out.
        adapter.core_schema = exact(adapter.core_schema, _read_duration)
        adapter.validator = pydantic_core.SchemaValidator(finite(adapter.core_schema), None, False)
        adapter.serializer = pydantic_core.SchemaSerializer(adapter.core_schema, None, False)
        return adapter
    except pydantic.errors.PydanticSchemaGenerationError as error:
        unknown = re.search(r"<class '(?:[\w<>]+\.)*(\w+)'>", str(error))
        named = unknown[1] if unknown is not None else "one of its types"
        # Not `from error`: pydantic's advice is for who writes pydantic models, and its traceback is no user's.
        raise InvalidConfig(
            f"{where}: {shown} cannot be read from JSON: {named} is none of the types that can. Make it a dataclass or"
            " a pydantic model; or use JSON types, numpy arrays, PIL images, bytes or pathlib.Path"
        ) from None
    except (pydantic.errors.PydanticUserError, TypeError, NameError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidConfig(
            f"{where}: {shown} cannot be read from JSON ({reason}); use JSON types, dataclasses, pydantic models, "
            "numpy arrays, PIL images, bytes or pathlib.Path"
        ) from error


def _read_duration(value: Any) -> Any:
    if not isinstance(value, str | datetime.timedelta):
        raise PydanticCustomError("duration", "a duration is text, such as P1DT5S")
    if isinstance(value, str) and has_calendar(value):
        raise PydanticCustomError(
            "calendar", "a duration has no years and no months, which are not always as long: say days, as in P30D"
        )
    try:
        return _durations().validate_python(value)
    except pydantic.ValidationError as error:
        raise PydanticCustomError(
            "duration", "a duration is text, such as P1DT5S; got {got}", {"got": value}
        ) from error


@functools.cache
def _durations() -> pydantic_core.SchemaValidator:
    return pydantic_core.SchemaValidator(core_schema.timedelta_schema())


def read_json(adapter: Adapter, body: bytes, where: str) -> Any:
    """A value from JSON, strictly.

    Raises:
        InvalidInput: it is not JSON, or not of that type; the message has the path of each wrong value.
    """
    try:
        if _NO_JSON.search(body):
            msgspec.json.decode(body)  # pydantic would take a NaN or an infinity that stands outside of a text
        return adapter.validate_json(body, strict=True)
    except pydantic.ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        if first["type"] == "json_invalid" and not first["loc"]:
            why = no_json(first["ctx"]["error"], body)
            raise InvalidInput(f"{where}: the body is not JSON: {why}") from error
        raise InvalidInput(f"{where}: {_explain(error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{where}: the body is not JSON: {no_json(error, body)}") from error


def read_texts(adapter: Adapter, texts: list[str], where: str) -> Any:
    """A value from what a form or query string gives under one name: text, which may be JSON.

    Read as the text itself where the type allows it, else as JSON; several are a list.

    Raises:
        InvalidInput: it is not of that type.
    """
    as_text = [msgspec.json.encode(text) for text in texts]
    as_json = [text.encode() if _is_json(text) else quoted for text, quoted in zip(texts, as_text, strict=True)]
    tries = [_joined(as_text), _joined(as_json)]
    if len(texts) == 1:
        tries = [as_text[0], as_json[0], *tries]
    errors: list[pydantic.ValidationError] = []
    for written in tries:
        try:
            return adapter.validate_json(written, strict=True)
        except pydantic.ValidationError as error:
            errors.append(error)
    raise InvalidInput(f"{where}: {_explain_text(errors[1], texts)}") from errors[1]


def _joined(parts: list[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _explain_text(error: pydantic.ValidationError, texts: list[str]) -> str:
    """What is wrong with a field, without a word of JSON where a scalar is expected."""
    [first, *others] = error.errors(include_url=False, include_input=False)
    wanted = _WANTED.get(first["type"]) or first.get("ctx", {}).get("expected")
    if others or first["loc"] or wanted is None:
        return _explain(error)
    if len(texts) > 1:
        return f"expected {wanted}, got {len(texts)} values"
    got = repr(texts[0]) if len(texts[0]) <= _SHOWN_CHARACTERS else f"{texts[0][:_SHOWN_CHARACTERS]!r}..."
    return f"expected {wanted}, got {got}"


def value_validator(adapter: Adapter) -> pydantic_core.SchemaValidator:
    """The validator of values of that type which do not come from JSON.

    A dataclass may be one, or the dict of its fields; a date may be its text; but "1" is no number here either.
    """
    return pydantic_core.SchemaValidator(strict_scalars(adapter.core_schema), None, False)


def read_value(validator: pydantic_core.SchemaValidator, value: Any, where: str) -> Any:
    """A value from builtins: what a native call carries, or what a method returned.

    Raises:
        InvalidInput: it is not of that type.
    """
    try:
        return validator.validate_python(value)
    except pydantic.ValidationError as error:
        raise InvalidInput(f"{where}: {_explain(error)}") from error


def write_json(adapter: Adapter, value: Any) -> bytes:
    """A value as JSON.

    Raises:
        TypeError: the value is not of the declared type.
    """
    try:
        return adapter.dump_json(value, by_alias=True, warnings="error")
    except (pydantic_core.PydanticSerializationError, pydantic_core.PydanticSerializationUnexpectedValue) as error:
        raise TypeError(str(error)) from error


def to_json_builtins(value: Any) -> Any:
    """A value as JSON's own types: models and dataclasses as their fields, dates as text.

    Raises:
        TypeError: it has no form in JSON.
    """
    try:
        return pydantic_core.to_jsonable_python(value)
    except pydantic_core.PydanticSerializationError as error:
        raise TypeError(str(error)) from error


def to_builtins(model: Any) -> Any:
    """The fields of a pydantic model, by the names that they are read by, or the root of one that has no fields.

    One level deep: nested values stay what they are.

    Raises:
        TypeError: it is no pydantic model.
    """
    if not isinstance(model, pydantic.BaseModel):
        raise TypeError(f"{type(model).__name__} is no pydantic model")
    if isinstance(model, pydantic.RootModel):
        return model.root
    fields = type(model).__pydantic_fields__
    return {_read_name(fields, name): value for name, value in dict(model).items()}


def _read_name(fields: dict[str, Any], name: str) -> str:
    """The name that a field is read by: its alias, where it has one."""
    alias = getattr(fields.get(name), "validation_alias", None)
    if isinstance(alias, pydantic.AliasChoices):
        alias = alias.choices[0]
    return alias if isinstance(alias, str) else name


class _Schemas(GenerateJsonSchema):
    """pydantic's schemas; those of classes say too that they have no other fields, as reading them does."""

    def encode_default(self, dft: Any) -> Any:
        """A default as it would be written."""
        return msgspec.to_builtins(dft) if isinstance(dft, datetime.timedelta) else super().encode_default(dft)

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """The schema of a pydantic model: `exact` has it refuse other fields, unless it says otherwise itself."""
        found = super().model_schema(schema)
        if schema.get("config", {}).get("extra_fields_behavior") == "forbid":
            found.setdefault("additionalProperties", False)
        return found

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """The schema of a dataclass."""
        found = super().dataclass_schema(schema)
        if schema.get("config", {}).get("extra_fields_behavior") not in ("allow", "ignore"):
            found.setdefault("additionalProperties", False)
        return found


_IN_MODELS: Final = {
    "Image": 'Annotated[Image.Image, trilith.ContentType("image/*")]',
    "ndarray": 'Annotated[np.ndarray, trilith.DType("float32")]',
    "Tensor": 'Annotated[torch.Tensor, trilith.DType("float32")]',
    "DataFrame": "Annotated[pd.DataFrame, trilith.Frame()]",
    "Series": "Annotated[pd.Series, trilith.Frame()]",
    "Table": "Annotated[pa.Table, trilith.Frame()]",
}
"""What a field of a pydantic model must be for it to be read and written, by the class that it may have had alone."""


def _no_schema(problem: str) -> str:
    found = re.search(r"<class '(?:[\w<>]+\.)*(\w+)'>", problem)
    name = found[1] if found is not None else ""
    if name in _IN_MODELS:
        return f"a field of a pydantic model is a {name}, which pydantic does not know: write `{_IN_MODELS[name]}`"
    return f"a type has no JSON schema: {problem.splitlines()[0]}"


def schemas_of(wanted: list[tuple[str, Literal["validation", "serialization"], Adapter]]) -> tuple[Any, Any]:
    """JSON schemas of many types at once, so that equal definitions are shared and clashing names told apart.

    Args:
        wanted: (key, which side, validator).

    Returns:
        Schemas by (key, side), and the definitions that they refer to as `#/components/schemas/NAME`.

    Raises:
        InvalidConfig: a type has no JSON schema.
    """
    try:
        by_key, whole = pydantic.TypeAdapter.json_schemas(wanted, ref_template=REF_TEMPLATE, schema_generator=_Schemas)
    except pydantic.errors.PydanticInvalidForJsonSchema as error:
        raise InvalidConfig(_no_schema(str(error))) from None
    return by_key, whole.get("$defs", {})


def _explain(error: pydantic.ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{one['msg']} - at `{_path(one['loc'])}`" for one in found[:_SHOWN_ERRORS]]
    if len(found) > _SHOWN_ERRORS:
        lines.append(f"and {len(found) - _SHOWN_ERRORS} more")
    return "; ".join(lines)


def _path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)

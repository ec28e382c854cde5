"""The methods of a service as its OpenAPI document describes them: names, types, documentation."""

from __future__ import annotations

import inspect
from typing import Any, Final

import msgspec

from trilith.errors import Unsupported
from trilith.service.names import is_client_name

_JSON_TYPES: Final = {
    "integer": "int",
    "number": "float",
    "string": "str",
    "boolean": "bool",
    "object": "dict",
    "null": "None",
}
_GIVEN: Final = {
    "array": "numpy.ndarray",
    "frame": "pandas.DataFrame | pyarrow.Table",
    "image": "PIL.Image.Image | bytes | pathlib.Path",
    "bytes": "bytes",
    "file": "pathlib.Path | bytes",
}
_RETURNED: Final = {
    "array": "numpy.ndarray",
    "frame": "pandas.DataFrame",
    "image": "PIL.Image.Image",
    "bytes": "bytes",
    "file": "bytes",
}
_DEEPEST: Final = 8


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter, as `x-trilith` describes it."""

    name: str
    kind: str = "json"
    many: bool = False
    dtype: str = ""
    required: bool = True
    default: Any = None
    keyword_only: bool = False
    upload: str = ""
    schema: dict[str, Any] = {}


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A result, or one part of one, as `x-trilith` describes it."""

    kind: str = "json"
    many: bool = False
    dtype: str = ""
    library: str = ""


class Result(Part, frozen=True, kw_only=True):
    """The result: of several parts where it has a `form` (`tuple`, `object`, `mapping`)."""

    form: str = ""
    parts: dict[str, Part] = {}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method.

    Attributes:
        method: its name in Python.
        path: its route.
        root: the one parameter is the whole body.
        raw: the parameter that a raw body stands for, "" for none.
        npy: the parameter that an `application/x-npy` body stands for, "" for none.
        frame: the parameter that a body of CSV, Parquet or Arrow stands for, "" for none.
        timeout_s: its own time limit in seconds, or None when the server does not say.
        idempotent: a call may run twice.
        offers: content types of the answer, the default first.
        streams: it answers with a stream of items; `result` is one of them.
        taken: the stream of items that it takes, None for none; the type is that of one.
        accepts: content types of the body.
        definitions: schemas that others refer to by name.
    """

    method: str
    path: str
    parameters: list[Parameter]
    result: Result
    root: bool = False
    raw: str = ""
    npy: str = ""
    frame: str = ""
    alias: bool = False
    timeout_s: float | None = None
    idempotent: bool = False
    documentation: str = ""
    offers: list[str] = []
    streams: bool = False
    taken: Parameter | None = None
    accepts: list[str] = []
    result_schema: dict[str, Any] = {}
    definitions: dict[str, Any] = {}

    def signature(self) -> inspect.Signature:
        """Python's signature of the method, without `self`."""
        given = [
            inspect.Parameter(
                parameter.name,
                self._kind(parameter),
                default=inspect.Parameter.empty if parameter.required else parameter.default,
                annotation=self._given(parameter),
            )
            for parameter in self.parameters
        ]
        if self.taken is not None:
            item = self._shown(self.taken.kind, self.taken.many, self.taken.schema, _GIVEN)
            kind = (
                inspect.Parameter.KEYWORD_ONLY if self.taken.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
            )
            stream = inspect.Parameter(self.taken.name, kind, annotation=_Shown(f"Iterable[{item}]"))
            given.insert(len(given) if self.taken.keyword_only else 0, stream)
        returned = self._shown(self.result.kind, self.result.many, self.result_schema, _RETURNED)
        if self.streams:
            returned = _Shown(f"Iterator[{returned}]")
        return inspect.Signature(given, return_annotation=returned)

    def _given(self, parameter: Parameter) -> _Shown:
        found = self._shown(parameter.kind, parameter.many, parameter.schema, _GIVEN)
        return _Shown(f"{_GIVEN[parameter.upload]} | {found}") if parameter.upload in _GIVEN else found

    def _kind(self, parameter: Parameter) -> Any:
        if self.root:
            return inspect.Parameter.POSITIONAL_ONLY
        return inspect.Parameter.KEYWORD_ONLY if parameter.keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD

    def _shown(self, kind: str, many: bool, schema: dict[str, Any], special: dict[str, str]) -> _Shown:
        if kind in special:
            return _Shown(f"list[{special[kind]}]" if many else special[kind])
        return _Shown(json_annotation(schema, self.definitions))


class _Shown(str):
    """An annotation that `help` shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def json_annotation(schema: dict[str, Any], definitions: dict[str, Any], depth: int = 0) -> str:
    """The Python type of what the JSON form is read as: an object is a dict, whatever class it is on the server."""
    if depth > _DEEPEST:
        return "Any"
    if "$ref" in schema:
        found = definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
        # Its values differ by key: `dict` says enough.
        return "dict" if found.get("type") == "object" else json_annotation(found, definitions, depth + 1)
    if "anyOf" in schema:
        members = (json_annotation(member, definitions, depth + 1) for member in schema["anyOf"])
        return " | ".join(dict.fromkeys(members))
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"list[{json_annotation(items, definitions, depth + 1)}]" if items else "list"
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), dict):
        return f"dict[str, {json_annotation(values, definitions, depth + 1)}]"
    return _JSON_TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def read_operations(document: dict[str, Any], url: str) -> list[Operation]:
    """The methods that an OpenAPI document of Trilith describes.

    Raises:
        Unsupported: it is not one of Trilith's.
    """
    found = []
    definitions = document.get("components", {}).get("schemas", {})
    for path, item in document.get("paths", {}).items():
        operation = item.get("post", {})
        extension = operation.get("x-trilith")
        if extension is None:
            continue
        content = operation["responses"]["200"]["content"]
        summary, text = operation.get("summary", ""), operation.get("description", "")
        found.append(
            msgspec.convert(
                {
                    **extension,
                    "path": path,
                    "documentation": f"{summary}\n\n{text}".strip(),
                    "offers": list(content),
                    "accepts": list(operation.get("requestBody", {}).get("content", {})),
                    "definitions": definitions,
                    "result_schema": content.get("application/json", {}).get("schema")
                    or content.get("text/event-stream", {}).get("x-itemSchema", {}),
                },
                Operation,
            )
        )
    if not found:
        raise Unsupported(
            f"{url}/openapi.json describes no method of a service of Trilith; is it another server's address?"
        )
    for operation in found:
        if is_client_name(operation.method):
            raise Unsupported(
                f"{url} has a method {operation.method!r}, a name that the client needs for itself; name it otherwise "
                "in the service, or call it by its path with any HTTP client"
            )
    return [operation for operation in found if not operation.alias]

"""The methods of a service as its OpenAPI document describes them: names, types, documentation."""

from __future__ import annotations

import inspect
from typing import Any, Final

import msgspec

from trilith.errors import Unsupported

_JSON_TYPES: Final = {
    "integer": "int",
    "number": "float",
    "string": "str",
    "boolean": "bool",
    "object": "dict[str, Any]",
    "null": "None",
}
_SPECIAL: Final = {
    "array": "numpy.ndarray",
    "image": "PIL.Image.Image | bytes | pathlib.Path",
    "bytes": "bytes",
    "file": "pathlib.Path | bytes",
}


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter, as `x-trilith` describes it."""

    name: str
    kind: str = "json"
    many: bool = False
    dtype: str = ""
    required: bool = True
    default: Any = None
    schema: dict[str, Any] = {}


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result, as `x-trilith` describes it."""

    kind: str = "json"
    many: bool = False
    dtype: str = ""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method.

    Attributes:
        method: its name in Python.
        path: its route.
        root: the one parameter is the whole body.
        raw: the parameter that a raw body stands for, "" for none.
        npy: the parameter that an `application/x-npy` body stands for, "" for none.
        offers: content types of the answer, the default first.
    """

    method: str
    path: str
    parameters: list[Parameter]
    result: Result
    root: bool = False
    raw: str = ""
    npy: str = ""
    alias: bool = False
    documentation: str = ""
    offers: list[str] = []
    result_schema: dict[str, Any] = {}

    def signature(self) -> inspect.Signature:
        """Python's signature of the method, without `self`."""
        given = [
            inspect.Parameter(
                parameter.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD if parameter.required else inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if parameter.required else parameter.default,
                annotation=_annotation(parameter.kind, parameter.many, parameter.schema),
            )
            for parameter in sorted(self.parameters, key=lambda parameter: not parameter.required)
        ]
        returned = _annotation(self.result.kind, self.result.many, self.result_schema)
        return inspect.Signature(given, return_annotation=returned)


def _annotation(kind: str, many: bool, schema: dict[str, Any]) -> str:
    if kind in _SPECIAL:
        return f"list[{_SPECIAL[kind]}]" if many else _SPECIAL[kind]
    return _json_annotation(schema)


def _json_annotation(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_json_annotation(member) for member in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        return f"list[{_json_annotation(items)}]" if items else "list[Any]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {_json_annotation(schema['additionalProperties'])}]"
    return _JSON_TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"


def read_operations(document: dict[str, Any], url: str) -> list[Operation]:
    """The methods that an OpenAPI document of Trilith describes.

    Raises:
        Unsupported: it is not one of Trilith's.
    """
    found = []
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
                    "result_schema": content.get("application/json", {}).get("schema", {}),
                },
                Operation,
            )
        )
    if not found:
        raise Unsupported(f"{url}/openapi.json describes no method of a Trilith service")
    return [operation for operation in found if not operation.alias]

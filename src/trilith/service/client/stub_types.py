"""JSON schemas as Python annotations, for a stub file: what a caller may give, and what comes back.

Rule 1: an object that has a name becomes a `TypedDict`, one that lists its values a `Literal`; anything else stands
    where it is used.
Rule 2: an argument is wide (`Sequence`, `Mapping`), a result exact (`list`, `dict`). Inside a `TypedDict` all is exact,
    so that what one method returned may be given to another.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from trilith.service.client.operations import Operation, Parameter, Part, Result

_SCALARS: Final = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}
_BUILTINS: Final = frozenset({"int", "float", "str", "bool", "bytes", "list", "dict", "tuple"})
_TAKEN: Final = frozenset(
    {
        *(
            "Any",
            "Image",
            "Literal",
            "Mapping",
            "NDArray",
            "NotRequired",
            "Protocol",
            "Self",
            "Sequence",
            "AsyncIterable",
            "AsyncIterator",
            "Iterable",
            "Iterator",
            "TYPE_CHECKING",
        ),
        *(
            "TracebackType",
            "TypeAlias",
            "TypedDict",
            "annotations",
            "builtins",
            "cast",
            "connect",
            "connect_async",
            "np",
        ),
        *("pathlib", "trilith"),
    }
)
_DEEPEST: Final = 12
_GIVEN: Final = {
    "array": "NDArray[Any] | Sequence[Any]",
    "frame": "Any",
    "image": "Image.Image | bytes | pathlib.Path",
    "bytes": "bytes | pathlib.Path",
    "file": "pathlib.Path | bytes",
}
_RETURNED: Final = {"image": "Image.Image", "bytes": "bytes", "file": "bytes", "frame": "Any"}


class StubTypes:
    """The annotations of one stub file, and the definitions that they name.

    Args:
        definitions: schemas by the name that others refer to.
        shadowed: names of methods: `list` would mean the method inside its class.
        reserved: names of classes that the file has besides.
    """

    def __init__(self, definitions: Mapping[str, dict[str, Any]], shadowed: Iterable[str], reserved: set[str]) -> None:
        self._definitions = definitions
        self._spelled = {name: name for name in _BUILTINS}
        if _BUILTINS & set(shadowed):
            self._spelled = {name: f"builtins.{name}" for name in _BUILTINS}
        self._names: dict[str, str] = {}
        self._used_names = {*_TAKEN, *reserved}
        self._written: dict[str, str] = {}

    @property
    def definitions(self) -> list[str]:
        """The source of what the annotations name, in the order of their names."""
        return [text for _, text in sorted(self._written.items())]

    def given(self, parameter: Parameter) -> str:
        """What an argument may be."""
        if parameter.kind in _GIVEN:
            one = _GIVEN[parameter.kind]
            found = self._builtins(f"Sequence[{one}]" if parameter.many else one)
            return f"{found} | None" if not parameter.required and parameter.default is None else found
        found = self._annotation(parameter.schema, given=True, depth=0)
        return f"{self._builtins(_GIVEN[parameter.upload])} | {found}" if parameter.upload in _GIVEN else found

    def returned(self, result: Result, schema: dict[str, Any]) -> str:
        """What a result is."""
        if result.form == "tuple":
            parts = ", ".join(self._one(part, {}) for part in result.parts.values())
            return f"{self._spelled['tuple']}[{parts}]"
        if result.form:
            return f"{self._spelled['dict']}[{self._spelled['str']}, Any]"
        return self._one(result, schema)

    def _one(self, result: Part, schema: dict[str, Any]) -> str:
        if result.kind == "array":
            one = f"NDArray[np.{result.dtype}]" if result.dtype and _is_numpy_type(result.dtype) else "NDArray[Any]"
        elif result.kind in _RETURNED:
            one = self._builtins(_RETURNED[result.kind])
        else:
            return self._annotation(schema, given=False, depth=0)
        found = f"{self._spelled['list']}[{one}]" if result.many else one
        optional = any(member.get("type") == "null" for member in schema.get("anyOf", []))
        return f"{found} | None" if optional else found

    def _builtins(self, annotation: str) -> str:
        return re.sub(r"\bbytes\b", self._spelled["bytes"], annotation)

    def _annotation(self, schema: dict[str, Any], *, given: bool, depth: int) -> str:
        if depth > _DEEPEST:
            return "Any"
        if "$ref" in schema:
            return self._named(str(schema["$ref"]).rpartition("/")[2], given=given, depth=depth)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                members = [self._annotation(each, given=given, depth=depth + 1) for each in schema[word]]
                return "Any" if "Any" in members else " | ".join(dict.fromkeys(members))
        if "allOf" in schema and len(schema["allOf"]) == 1:
            return self._annotation(schema["allOf"][0], given=given, depth=depth + 1)
        if "const" in schema or "enum" in schema:
            return self._literal(schema.get("enum", [schema.get("const")]))
        kind = schema.get("type")
        if isinstance(kind, list):
            members = [self._annotation({**schema, "type": each}, given=given, depth=depth + 1) for each in kind]
            return " | ".join(dict.fromkeys(members))
        if kind == "array":
            return self._array(schema, given=given, depth=depth)
        if kind == "object":
            values = schema.get("additionalProperties")
            inner = self._annotation(values, given=given, depth=depth + 1) if isinstance(values, dict) else "Any"
            return f"{'Mapping' if given else self._spelled['dict']}[{self._spelled['str']}, {inner}]"
        if kind == "string" and given and schema.get("contentEncoding") == "base64":
            return f"{self._spelled['str']} | {self._spelled['bytes']}"
        scalar = _SCALARS.get(kind, "Any") if isinstance(kind, str) else "Any"
        return self._spelled.get(scalar, scalar)

    def _array(self, schema: dict[str, Any], *, given: bool, depth: int) -> str:
        outer = "Sequence" if given else self._spelled["list"]
        fixed = schema.get("prefixItems")
        if fixed:
            members = [self._annotation(each, given=given, depth=depth + 1) for each in fixed]
            inner = "Any" if "Any" in members else " | ".join(dict.fromkeys(members))
            return f"{outer}[{inner}]"
        items = schema.get("items")
        return f"{outer}[{self._annotation(items, given=given, depth=depth + 1) if items else 'Any'}]"

    def _literal(self, values: list[Any]) -> str:
        if any(value is not None and not isinstance(value, str | int | bool) for value in values):
            return self._spelled["float"] if all(isinstance(value, int | float) for value in values) else "Any"
        return f"Literal[{', '.join(dict.fromkeys(map(repr, values)))}]"

    def _named(self, name: str, *, given: bool, depth: int) -> str:
        schema = self._definitions.get(name)
        if schema is None:
            return "Any"
        if schema.get("type") == "object" and schema.get("properties"):
            return self._write(name, schema)
        if "enum" in schema:
            found = self._python_name(name)
            literal = self._literal(schema["enum"])
            if not literal.startswith("Literal"):
                return literal
            self._written.setdefault(found, f"{found}: TypeAlias = {literal}")
            return found
        return self._annotation(schema, given=given, depth=depth + 1)

    def _python_name(self, name: str) -> str:
        """The class of a definition."""
        found = self._names.get(name)
        if found is None:
            found = re.sub(r"\W+|_+$", "", name) or "Value"
            if keyword.iskeyword(found) or not found[0].isalpha():
                found = f"Value{found}"
            while found in self._used_names or hasattr(builtins, found):
                found += "_"
            self._used_names.add(found)
            self._names[name] = found
        return found

    def _write(self, name: str, schema: dict[str, Any]) -> str:
        found = self._python_name(name)
        if found in self._written:
            return found
        self._written[found] = ""  # it may refer to itself
        required = set(schema.get("required", ()))
        fields = {}
        for field, inner in schema["properties"].items():
            annotation = self._annotation(inner, given=False, depth=0)
            fields[field] = annotation if field in required else f"NotRequired[{annotation}]"
        if all(_is_field(field) for field in fields):
            lines = [f"class {found}(TypedDict):"]
            if schema.get("description"):
                lines.append(f"    {documentation(str(schema['description']), '    ')}")
            lines += [f"    {field}: {annotation}" for field, annotation in fields.items()]
        else:  # keys that are no names of Python, or would mean something else behind them
            lines = [f"{found} = TypedDict(", f"    {found!r},", "    {"]
            lines += [f"        {field!r}: {annotation!r}," for field, annotation in fields.items()]
            lines += ["    },", ")"]
        self._written[found] = "\n".join(lines)
        return found


def _is_field(name: str) -> bool:
    private = name.startswith("__") and not name.endswith("__")
    return name.isidentifier() and not keyword.iskeyword(name) and name not in _BUILTINS | _TAKEN and not private


def _is_numpy_type(name: str) -> bool:
    """Whether numpy has a scalar type of that name."""
    import numpy as np

    return isinstance(getattr(np, name, None), type)


def documentation(text: str, indent: str) -> str:
    """A docstring of one or several lines."""
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').strip()
    lines = [line.rstrip() for line in escaped.splitlines()]
    if len(lines) > 1:
        return '"""' + f"\n{indent}".join(lines).replace(f"\n{indent}\n", "\n\n") + f'\n{indent}"""'
    closing = " " if escaped.endswith('"') else ""
    return f'"""{escaped}{closing}"""'


def used_names(operations: Iterable[Operation]) -> set[str]:
    """The names of the methods."""
    return {operation.method for operation in operations}

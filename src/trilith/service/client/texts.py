"""Arguments as a person types them: `name=value` becomes what the method takes.

    image=@page.png     the file; `@-` is standard input
    limit=5 tags='["a"]' where="a word"     JSON, or the text itself where the method takes text
    tag=a tag=b         a list
    name=@@home         the text `@home`
    items=@lines.jsonl  of a method that takes a stream: one item a line; or items=a items=b
    @arguments.json     all arguments, as one JSON object; of a method that takes its whole body, that body

Rule: a name that the method does not have, or a value that cannot be read, is an `InvalidInput` that says what to
write. Whether the value is right is the server's to say.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from trilith.errors import InvalidInput
from trilith.service.client.operations import Operation, Parameter, json_annotation

_NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_FILES: Final = frozenset({"image", "bytes", "file"})
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_NPY: Final = b"\x93NUMPY"
_SHOWN: Final = 60
_CHUNK_BYTES: Final = 1 << 16


def read_arguments(operation: Operation, texts: Iterable[str], stdin: Callable[[], bytes]) -> dict[str, Any]:
    """The arguments of a call, by name.

    Args:
        operation: the method.
        texts: as they stood on the command line.
        stdin: reads standard input to its end; called at most once.

    Raises:
        InvalidInput: a name is unknown, a file is not there, or a value cannot be read.
    """
    reader = _Reader(operation, stdin)
    named: dict[str, list[str]] = {}
    arguments: dict[str, Any] = {}
    for text in texts:
        found = _NAMED.fullmatch(text)
        if found is not None:
            named.setdefault(found[1], []).append(found[2])
        else:
            arguments |= reader.whole(text)
    for name, values in named.items():
        if name in arguments:
            raise InvalidInput(f"{operation.method}: {name} is given twice: by itself, and in the body")
        arguments[name] = reader.value(reader.parameter(name), values)
    wanted = [each.name for each in operation.parameters if each.required]
    if operation.taken is not None:
        wanted.insert(0, operation.taken.name)
    missing = [name for name in wanted if name not in arguments]
    if missing:
        raise InvalidInput(
            f"{operation.method} wants {_listed(missing)}: it is {operation.method}{operation.signature()};"
            f" write {missing[0]}=..."
        )
    return arguments


class _Reader:
    def __init__(self, operation: Operation, stdin: Callable[[], bytes]) -> None:
        self._operation = operation
        self._stdin = stdin
        self._stdin_is_read = False
        self._parameters = {parameter.name: parameter for parameter in operation.parameters}
        if operation.taken is not None:
            self._parameters[operation.taken.name] = operation.taken

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name."""
        found = self._parameters.get(name)
        if found is None:
            method = self._operation.method
            near = difflib.get_close_matches(name, self._parameters, n=1)
            guess = f"; did you mean {near[0]}=...?" if near else ""
            raise InvalidInput(
                f"{method} has no parameter {name!r}{guess}: it is {method}{self._operation.signature()}"
            )
        return found

    def whole(self, text: str) -> dict[str, Any]:
        """The arguments in a text without a name."""
        operation = self._operation
        alone = operation.raw or operation.npy or operation.frame or self._whole_parameter()
        if alone:
            return {alone: self.value(self._parameters[alone], [text])}
        where = f"{operation.method}: {_shortened(text)}"
        raw = self._content(text[1:], where) if text.startswith("@") else text.encode()
        try:
            found = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"{where}: expected NAME=VALUE, or all arguments as a JSON object: {error}") from error
        if not isinstance(found, dict):
            raise InvalidInput(f"{where}: expected all arguments as a JSON object, got {type(found).__name__}")
        for name in found:
            self.parameter(name)
        return found

    def _whole_parameter(self) -> str:
        """The parameter that a text without a name stands for: the whole body, or the only one that must be given."""
        parameters = self._operation.parameters
        required = [parameter for parameter in parameters if parameter.required]
        if self._operation.taken is not None:
            return self._operation.taken.name
        if self._operation.root:
            return parameters[0].name
        return required[0].name if len(required) == 1 and required[0].kind != "json" else ""

    def value(self, parameter: Parameter, texts: list[str]) -> Any:
        """The value that one parameter is given."""
        where = f"{self._operation.method}: {parameter.name}"
        if parameter is self._operation.taken:
            return self._items(parameter, texts, where)
        if parameter.kind == "json":
            return self._json(parameter.schema, texts, where)
        if texts == ["null"] and parameter.default is None and not parameter.required:
            return None
        read = {"array": self._array, "frame": self._frame}.get(parameter.kind, self._file)
        if parameter.many:
            if parameter.kind == "array" and len(texts) == 1 and not texts[0].startswith("@"):
                return self._array(texts[0], parameter, where)
            return [read(text, parameter, where) for text in texts]
        if len(texts) > 1:
            raise InvalidInput(f"{where} is given {len(texts)} times; expected once")
        return read(texts[0], parameter, where)

    def _file(self, text: str, parameter: Parameter, where: str) -> Any:
        if not text.startswith("@"):
            kind = "an image" if parameter.kind == "image" else "a file"
            raise InvalidInput(
                f"{where} takes {kind}: write {parameter.name}=@FILE, or {parameter.name}=@- for standard input;"
                f" got {_shortened(text)}"
            )
        return self._read_stdin(where) if text == "@-" else _existing(text[1:], where)

    def _items(self, parameter: Parameter, texts: list[str], where: str) -> list[Any]:
        """The items of the stream that the method takes: each text is one, a file has one a line."""
        found: list[Any] = []
        for text in texts:
            if parameter.kind == "bytes":
                if not text.startswith("@"):
                    raise InvalidInput(f"{where} takes a stream of bytes: write {parameter.name}=@FILE, or @-")
                content = self._content(text[1:], where)
                found += [content[at : at + _CHUNK_BYTES] for at in range(0, len(content), _CHUNK_BYTES)]
            elif text.startswith("@") and not text.startswith("@@"):
                lines = self._content(text[1:], where).decode("utf-8", "replace").splitlines()
                found += [self._one_json(parameter.schema, line, where, literal=True) for line in lines if line]
            else:
                found.append(self._one_json(parameter.schema, text, where))
        return found

    def _frame(self, text: str, parameter: Parameter, where: str) -> Any:
        if text.startswith("@") and text != "@-":
            return _existing(text[1:], where)  # CSV, Parquet, Arrow or JSON, as its name says
        try:
            return msgspec.json.decode(self._read_stdin(where) if text == "@-" else text.encode())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(
                f"{where} takes a table: write {parameter.name}=@FILE (.csv, .parquet, .arrow), or records in JSON;"
                f" got {_shortened(text)}"
            ) from error

    def _array(self, text: str, parameter: Parameter, where: str) -> Any:
        raw = self._content(text[1:], where) if text.startswith("@") else text.encode()
        if raw.startswith(_NPY):
            from trilith.service.codecs import arrays

            return arrays.from_npy(raw)
        try:
            return msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(
                f"{where} takes an array: nested lists in JSON, or {parameter.name}=@FILE with such or a .npy file;"
                f" got {_shortened(text)}"
            ) from error

    def _json(self, schema: dict[str, Any], texts: list[str], where: str) -> Any:
        definitions = self._operation.definitions
        if len(texts) == 1:
            return self._one_json(schema, texts[0], where)
        items = _items(schema, definitions)
        if items is None:
            shown = json_annotation(schema, definitions)
            raise InvalidInput(f"{where} is given {len(texts)} times; expected once: it is {shown}")
        return [self._one_json(items, text, where) for text in texts]

    def _one_json(self, schema: dict[str, Any], text: str, where: str, *, literal: bool = False) -> Any:
        """A value of a text. `literal`: an @ at its beginning means nothing."""
        return self._of_text(schema, text if literal else self._written(text, where), where)

    def _written(self, text: str, where: str) -> str:
        if text.startswith("@@"):
            return text[1:]
        if text.startswith("@"):
            try:
                return self._content(text[1:], where).decode()
            except UnicodeDecodeError as error:
                raise InvalidInput(f"{where}: {text[1:]} is not UTF-8 text: {error}") from error
        return text

    def _of_text(self, schema: dict[str, Any], text: str, where: str) -> Any:
        definitions = self._operation.definitions
        types = _types(schema, definitions)
        if "string" in types and types != _TYPES:
            return text
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            if types == _TYPES:
                return text
            items = _items(schema, definitions)
            if items is not None and "string" in _types(items, definitions):
                return [text]
            shown = json_annotation(schema, definitions)
            raise InvalidInput(f"{where}: expected {shown} as JSON, got {_shortened(text)}") from error
        if types <= {"array", "null"} and found is not None and not isinstance(found, list):
            return [found]
        return found

    def _content(self, name: str, where: str) -> bytes:
        if name == "-":
            return self._read_stdin(where)
        try:
            return _existing(name, where).read_bytes()
        except OSError as error:
            raise InvalidInput(f"{where}: {name} cannot be read: {error.strerror}") from error

    def _read_stdin(self, where: str) -> bytes:
        if self._stdin_is_read:
            raise InvalidInput(f"{where}: standard input (@-) is read once; give the other argument a file")
        self._stdin_is_read = True
        return self._stdin()


def _existing(name: str, where: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        raise InvalidInput(f"{where}: {name} is a folder; expected a file")
    near = difflib.get_close_matches(path.name, _beside(path), n=1)
    guess = f"; did you mean {path.with_name(near[0])}?" if near else ""
    raise InvalidInput(f"{where}: there is no file {name}{guess}")


def _beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    for _ in range(8):
        reference = schema.get("$ref")
        if reference is None:
            return schema
        schema = definitions.get(str(reference).rpartition("/")[2], {})
    return {}


def _types(schema: dict[str, Any], definitions: dict[str, Any], depth: int = 0) -> frozenset[str]:
    """The JSON types that a schema allows; all of them when it does not say."""
    schema = _resolved(schema, definitions)
    if depth > 8:
        return _TYPES
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return frozenset().union(*(_types(member, definitions, depth + 1) for member in schema[word]))
    if "const" in schema or "enum" in schema:
        return frozenset(_type_of(value) for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    return frozenset(kind) if isinstance(kind, list) else _TYPES


def _items(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a list's items, or None when the schema allows no list."""
    schema = _resolved(schema, definitions)
    for member in schema.get("anyOf", schema.get("oneOf", [])):
        found = _items(member, definitions)
        if found is not None:
            return found
    if "array" not in _types(schema, definitions):
        return None
    items = schema.get("items")
    return items if isinstance(items, dict) else {}


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "null"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."

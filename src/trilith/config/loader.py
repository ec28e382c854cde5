"""Text to frozen values: YAML into strict msgspec structs.

Rule 1: every error is an `InvalidConfig` whose message starts with the source and the path of the wrong key:
    `models/ocr/model.yaml: queue.max_size: Expected int, got str`.
Rule 2: an unknown key is an error that names its nearest known one; a key that stands twice is an error too.
Rule 3: numbers are those of YAML 1.2, in which `1e6` is one; PyYAML alone reads it as a text. What else is a text in
    YAML 1.1 stays one, and texts that look like numbers are written in quotes.
Rule 4: structs say `forbid_unknown_fields=True` and `frozen=True`; nothing here knows what they mean.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from trilith.core.foreign import shortened
from trilith.errors import InvalidConfig, UnknownReference

ValueT = TypeVar("ValueT")

_MERGE: Final = "tag:yaml.org,2002:merge"  # what `<<` is: the keys of another mapping, unless they stand here too
_LONGEST_VALUE: Final = 100
_DEEPEST: Final = 64  # levels of lists and mappings; a configuration has five
_FLOAT: Final = "tag:yaml.org,2002:float"
_POWER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)[eE][-+]?[0-9]+\Z")
_POWER_BEGINS: Final = "-+.0123456789"

_AT: Final = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>.*)`)?$", re.DOTALL)
_NUMBERS: Final = (msgspec.inspect.IntType, msgspec.inspect.FloatType)
_OUTSIDE: Final = re.compile(
    r"^(?:Expected `(?:int|float)` (?:<|>)=? |Number out of range|Expected `(?:int|float)[^`]*`, got )"
)
_UNKNOWN: Final = re.compile(r"^Object contains unknown field `(?P<name>.*)`$")


class _StrictLoader(yaml.SafeLoader):
    """The safe loader, but a key that stands twice is an error and not the last one's value.

    Whatever it raises for a value is a `YAMLError` with the value's place. What is nested too deeply is refused where
    it becomes so: PyYAML takes a time that grows by the square of the depth, and Python's stack ends.
    """

    def fetch_flow_collection_start(self, token_class: type[yaml.Token]) -> None:
        self._refuse_depth(self.flow_level)
        super().fetch_flow_collection_start(token_class)

    def add_indent(self, column: int) -> bool:
        self._refuse_depth(len(self.indents))
        return bool(super().add_indent(column))

    def _refuse_depth(self, depth: int) -> None:
        if depth >= _DEEPEST:
            raise yaml.scanner.ScannerError(
                None, None, f"it is nested too deeply; at most {_DEEPEST} levels can be read", self.get_mark()
            )

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=True)  # so that a value within itself is found out
        except (yaml.YAMLError, RecursionError):
            raise
        except Exception as error:  # what comes depends on what reads the value: int(), date(), a regular expression
            kind = str(node.tag).rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{shortened(str(node.value), _LONGEST_VALUE)!r} is no {kind}: {error}", node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[tuple[Hashable, ...]] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                merges = key_node.tag == _MERGE
                key = "<<" if merges else self.construct_object(key_node)
                if (merges, key) in seen:
                    raise yaml.constructor.ConstructorError(
                        "while reading a mapping", node.start_mark, f"the key {key!r} stands twice", key_node.start_mark
                    )
                seen.add((merges, key))
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, by which what the loader takes for a number is in quotes when it is a text."""


_StrictLoader.add_implicit_resolver(_FLOAT, _POWER, list(_POWER_BEGINS))
_Dumper.add_implicit_resolver(_FLOAT, _POWER, list(_POWER_BEGINS))


def parse_yaml(text: str, *, source: str) -> Any:
    """One YAML document as plain values; None when it is empty.

    Raises:
        InvalidConfig: the text is no YAML; the message has the line and the column.
    """
    try:
        return yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        raise InvalidConfig(f"{source}: {_yaml_problem(error)}") from error
    except RecursionError:
        raise InvalidConfig(f"{source}: it is nested too deeply") from None


def line_of(text: str, path: str) -> int | None:
    """The line, from 1, at which something stands in a YAML document.

    Args:
        text: the document.
        path: as messages have it, `keys[2].name`; of what is not there its nearest part that is.

    Returns:
        None for what is no YAML, or is empty.
    """
    try:
        node = yaml.compose(text, _StrictLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    if node is None:
        return None
    line: int = node.start_mark.line + 1
    for step in path.replace("]", "").replace("[", ".").split("."):
        found: Any = None
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == step), None)
        elif isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
            found = (node.value[int(step)],) * 2
        if found is None:
            return line
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Plain values as YAML, one key a line in the order that they have; what is small stays on its line."""
    return "".join(
        yaml.dump(
            {key: value},
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=None if isinstance(value, list | dict) else False,
            width=110,
        )
        for key, value in values.items()
    )


def convert(value: Any, kind: type[ValueT], *, source: str, root: str = "") -> ValueT:
    """Plain values as a struct (or any type that msgspec knows), strictly.

    Args:
        value: dictionaries, lists and scalars.
        kind: the type wanted.
        source: file name or other origin, for messages.
        root: path of `value` inside its source, for messages.

    Raises:
        InvalidConfig: a key is unknown or missing, or a value is of the wrong type or out of its range.
    """
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"{source}: {_problem(str(error), value, kind, root)}") from error


def load_yaml(path: Path, kind: type[ValueT]) -> ValueT:
    """Reads a YAML file into a struct; an empty file gives the struct of all defaults.

    Raises:
        UnknownReference: there is no such file, or it cannot be read.
        InvalidConfig: see `parse_yaml` and `convert`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnknownReference(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{path}: must be UTF-8 text: {error}") from error
    value = parse_yaml(text, source=str(path))
    return convert({} if value is None else value, kind, source=str(path))


def _yaml_problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return str(error)


def _problem(message: str, value: Any, kind: type[Any], root: str) -> str:
    found = _AT.match(message)
    what, path = (found["what"], (found["path"] or "").replace("[...]", "[*]")) if found else (message, "")
    path = path.replace("key` in `", "")  # of a mapping with a wrong key msgspec says so
    inner = [key for key in path.removeprefix("$").split(".") if key]
    keys = [root, *inner] if root else inner
    unknown = _UNKNOWN.match(what)
    if unknown is not None:
        return f"{_joined([*keys, unknown['name']])}unknown key{_suggestion(unknown['name'], kind, path)}"
    if _OUTSIDE.match(what):
        what = _range_problem(what, value, kind, inner)
    return f"{_joined(keys)}{what}"


def _range_problem(what: str, value: Any, kind: type[Any], keys: list[str]) -> str:
    """The whole range of the number at `keys`, of which msgspec names one end at most; and what came."""
    numbers = [each for each in _members(_type_at(kind, keys)) if isinstance(each, _NUMBERS)]
    if len(numbers) != 1 or numbers[0].le is None or not (least := _least(numbers[0])):
        return what
    integer = isinstance(numbers[0], msgspec.inspect.IntType)
    allowed = f"must be {'an integer' if integer else 'a number'} {least} to {numbers[0].le}"
    got = _value_at(value, keys)
    return f"{allowed}, got {got!r:.100}" if isinstance(got, int | float | str) else allowed


def _least(number: Any) -> str:
    if number.ge is not None:
        return f"from {number.ge}"
    return f"above {number.gt} and up" if number.gt is not None else ""


def _value_at(value: Any, keys: list[str]) -> Any:
    """What stands at `keys`; None where the path does not tell."""
    for key in keys:
        name, *indices = key.replace("]", "").split("[")
        for step in ([name] if name else []) + indices:
            if isinstance(value, Mapping):
                value = value.get(step)
            elif isinstance(value, list) and step.isdecimal():
                value = value[int(step)]
            else:
                return None
    return value


def _joined(keys: list[str]) -> str:
    return ".".join(keys).replace(".[", "[") + ": " if keys else ""


def _suggestion(name: str, kind: type[Any], path: str) -> str:
    known = _known_keys(kind, [key for key in path.removeprefix("$").split(".") if key])
    if not known:
        return ""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {', '.join(sorted(known))}"


def _known_keys(kind: type[Any], keys: list[str]) -> list[str]:
    """The keys of the struct that stands at `keys` under `kind`; empty when the types do not tell."""
    known = [
        field.encode_name
        for member in _members(_type_at(kind, keys))
        if isinstance(member, msgspec.inspect.StructType)
        for field in member.fields
    ]
    return sorted(set(known))


def _type_at(kind: type[Any], keys: list[str]) -> Any:
    """What msgspec knows of the type at `keys` under `kind`; None when the types do not tell."""
    info: Any = msgspec.inspect.type_info(kind)
    for key in keys:
        name, _, index = key.partition("[")
        info = _field_type(info, name) if name else info
        if index:
            info = next((item for member in _members(info) if (item := _item_type(member)) is not None), None)
    return info


def _members(info: Any) -> list[Any]:
    return list(info.types) if isinstance(info, msgspec.inspect.UnionType) else [info]


def _item_type(info: Any) -> Any:
    """The type of what stands in a list, or at the keys of a mapping."""
    if isinstance(info, msgspec.inspect.CollectionType | msgspec.inspect.VarTupleType):
        return getattr(info, "item_type", None)
    return info.value_type if isinstance(info, msgspec.inspect.DictType) else None


def _field_type(info: Any, name: str) -> Any:
    for member in _members(info):
        if isinstance(member, msgspec.inspect.StructType):
            for field in member.fields:
                if field.encode_name == name:
                    return field.type
    return None

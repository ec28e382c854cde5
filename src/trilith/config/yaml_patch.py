"""One value of a YAML text changed, and every other letter of it left: comments, order and layout are a person's.

    patched("instances: 2   # one a core\n", ("instances",), 1)  ->  "instances: 1   # one a core\n"

Rule: what comes out is read again, and says what was asked for; where that cannot be done in place, it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import yaml

from trilith.config.loader import parse_yaml
from trilith.errors import InvalidConfig

_INDENT: Final = 2


def patched(text: str, keys: Sequence[str], value: object, *, source: str = "the file") -> str:
    """The text in which `value` stands at `keys`.

    Args:
        text: a YAML document whose root is a mapping, or nothing.
        keys: the path to it; mappings that are missing are made.
        value: a plain value.
        source: what the text is called in messages.

    Raises:
        InvalidConfig: it is no such document, or the place is one that cannot be changed alone.
    """
    before = parse_yaml(text, source=source)
    if before is not None and not isinstance(before, dict):
        raise InvalidConfig(f"{source}: expected a mapping, got {before!r:.100}")
    node = yaml.compose(text, yaml.SafeLoader) if before else None
    # A document of nothing has nothing to look into: what is asked for stands at its end.
    found = _in_mapping(text, node, keys, value) if isinstance(node, yaml.MappingNode) else _appended(text, keys, value)
    if parse_yaml(found, source=source) != _put(before or {}, keys, value):
        raise InvalidConfig(f"{source}: {'.'.join(keys)}: cannot be changed in place; write {_plain(value)} there")
    return found


def _in_mapping(text: str, node: yaml.MappingNode, keys: Sequence[str], value: object) -> str:
    for key_node, value_node in node.value:
        if key_node.value == keys[0]:
            if len(keys) > 1 and isinstance(value_node, yaml.MappingNode) and value_node.value:
                return _in_mapping(text, value_node, keys[1:], value)
            inner = _flow(keys[1:], value)
            begin, end = value_node.start_mark.index, value_node.end_mark.index
            if isinstance(value_node, yaml.CollectionNode) and not value_node.flow_style:
                end = max(begin, _content_end(text, value_node))  # a block's mark is where the next thing begins
                begin = text.index(":", key_node.end_mark.index) + 1
                return f"{text[:begin]} {inner}{text[end:]}"
            if begin == end:  # `key:` and nothing
                return text[:begin] + (" " if text[begin - 1] == ":" else "") + inner + text[end:]
            return text[:begin] + inner + text[end:]
    last = node.value[-1][1]
    if node.flow_style:
        at = last.end_mark.index
        return f"{text[:at]}, {_word(keys[0])}: {_flow(keys[1:], value)}{text[at:]}"
    column = node.value[0][0].start_mark.column
    at = _line_end(text, max(node.value[-1][0].end_mark.index, _content_end(text, last)))
    return f"{text[:at]}\n{' ' * column}{_block(keys, value, column)}{text[at:]}"


def _appended(text: str, keys: Sequence[str], value: object) -> str:
    start = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{start}{_block(keys, value, 0)}\n"


def _content_end(text: str, node: yaml.Node) -> int:
    begin, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
        return max(begin, _content_end(text, last))
    return begin + len(text[begin:end].rstrip())


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _block(keys: Sequence[str], value: object, column: int) -> str:
    if len(keys) == 1:
        return f"{_word(keys[0])}: {_plain(value)}"
    inner = column + _INDENT
    return f"{_word(keys[0])}:\n{' ' * inner}{_block(keys[1:], value, inner)}"


def _flow(keys: Sequence[str], value: object) -> str:
    return _plain(value) if not keys else f"{{{_word(keys[0])}: {_flow(keys[1:], value)}}}"


def _word(key: str) -> str:
    return key if key.replace("_", "a").replace("-", "a").isalnum() and not key[0].isdigit() else _plain(key)


def _plain(value: object) -> str:
    return msgspec.json.encode(value).decode()  # JSON is YAML


def _put(values: dict[Any, Any], keys: Sequence[str], value: object) -> dict[Any, Any]:
    if len(keys) == 1:
        return {**values, keys[0]: value}
    inner = values.get(keys[0])
    return {**values, keys[0]: _put(inner if isinstance(inner, dict) else {}, keys[1:], value)}

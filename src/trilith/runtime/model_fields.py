"""Which fields of Triton's `ModelConfig` are honoured, and from where to where their numbers may be.

Rule 1: what is not listed in `HONOURED` is refused by name. None is ignored.
Rule 2: a field that holds a number has a range, and a number outside is refused by its path with that range. Also one
that does not even fit its field: the parser of the text format would name a column, and no field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import text_format
from google.protobuf.message import Message

from trilith.errors import InvalidConfig
from trilith.runtime.ranges import (
    DIMENSION,
    INSTANCES,
    INT32,
    INT64,
    LEVELS,
    MICROSECONDS,
    UINT32,
    VERSIONS,
    WARMUPS,
    Range,
)

_Tree = Mapping[str, "Mapping[str, Any] | Range | None"]
_POLICY: Final[_Tree] = {
    "timeout_action": None,
    "default_timeout_microseconds": MICROSECONDS,
    "allow_timeout_override": None,
    "max_queue_size": UINT32,
}
_WARMUP_INPUT: Final[_Tree] = {
    "data_type": None,
    "dims": Range(0, INT64.most),
    "zero_data": None,
    "random_data": None,
    "input_data_file": None,
}
HONOURED: Final[_Tree] = {
    "name": None,
    "platform": None,
    "backend": None,
    "version_policy": {"latest": {"num_versions": UINT32}, "all": {}, "specific": {"versions": VERSIONS}},
    "max_batch_size": INT32,
    "input": {
        "name": None,
        "data_type": None,
        "format": None,
        "dims": DIMENSION,
        "optional": None,
        "allow_ragged_batch": None,
    },
    "output": {"name": None, "data_type": None, "dims": DIMENSION, "label_filename": None},
    "batch_input": {"kind": None, "target_name": None, "data_type": None, "source_input": None},
    "batch_output": {"kind": None, "target_name": None, "source_input": None},
    "instance_group": {"name": None, "kind": None, "count": INSTANCES},
    "dynamic_batching": {
        "preferred_batch_size": INT32,
        "max_queue_delay_microseconds": MICROSECONDS,
        "preserve_ordering": None,
        "priority_levels": LEVELS,
        "default_priority_level": LEVELS,
        "default_queue_policy": _POLICY,
        "priority_queue_policy": _POLICY,
    },
    "optimization": {"graph": {"level": Range(-1, 2)}},
    "default_model_filename": None,
    "model_warmup": {"name": None, "batch_size": INT32, "count": WARMUPS, "inputs": _WARMUP_INPUT},
    "parameters": None,
    # Present but empty, these say what is so anyway.
    "response_cache": {},
    "model_transaction_policy": {},
}

STRING_OR_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
"""What of the text format is no field."""
_ESCAPE: Final = re.compile(r"\\(?P<escaped>[0-7]{1,3}|[xX][0-9a-fA-F]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED: Final = frozenset("abfnrtv\\'\"?")
_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|[{}<>]")
_NO_NUMBER: Final = re.compile(r": (?:Value out of range|Couldn't parse integer): (?P<got>\S+)$")


def check_fields(config: Message) -> None:
    """Sees that nothing is said in vain, and that every number is one that can be held.

    Raises:
        InvalidConfig: a field is not honoured, or a number is out of its range; the message begins with its path.
    """
    for path, number, allowed in _numbers(config, HONOURED):
        allowed.check(path, number)


def check_escapes(text: str) -> None:
    """Sees that every escape in a string is one of the text format: its parser would guess, and warn of it.

    Raises:
        InvalidConfig: one is not; the message begins with its line.
    """
    for string in STRING_OR_COMMENT.finditer(text):
        if string[0][0] == "#":
            continue
        for found in _ESCAPE.finditer(string[0], 1, len(string[0]) - 1):
            escaped = found["escaped"]
            octal = escaped[0] in "01234567" and int(escaped, 8) < 256
            if not (octal or (escaped[0] in "xXuU" and len(escaped) > 1) or escaped in _ESCAPED):
                line = text.count("\n", 0, string.start()) + 1
                raise InvalidConfig(f"line {line}: no such escape in a string: {found[0]!r}; a backslash is '\\\\'")


def parse_problem(text: str, error: text_format.ParseError) -> str:
    """What is wrong with a text that does not parse; a number that no field could hold is named by its field."""
    found = _NO_NUMBER.search(str(error))
    if found is None:
        return str(error)
    path = _path_at(text, error.GetLine() or 1, error.GetColumn() or 1)
    allowed: Any = HONOURED
    for name in path:
        if name != "value":  # of an entry of a mapping
            allowed = allowed.get(name) if isinstance(allowed, Mapping) else None
    where = f"line {error.GetLine()}: {'.'.join(path)}"
    if isinstance(allowed, Range):
        return allowed.refusal(where, found["got"]).message
    return f"{where}: {str(error).rpartition(' : ')[2]}"


def _path_at(text: str, line: int, column: int) -> list[str]:
    """The fields that a place in the text stands in. Line and column count from 1."""
    lines = text.split("\n")
    before = "\n".join([*lines[: line - 1], lines[line - 1][: column - 1]])
    path: list[str] = []
    name = ""
    for token in _TOKEN.findall(STRING_OR_COMMENT.sub("", before)):
        if token in "{<":
            path.append(name)
        elif token in "}>":
            del path[-1:]
        else:
            name = token
    return [*path, name]


def _numbers(message: Message, honoured: _Tree, path: str = "") -> Iterator[tuple[str, float, Range]]:
    """The numbers that are set, and their ranges."""
    for field, value in message.ListFields():
        here = f"{path}{field.name}"
        if field.name not in honoured:
            raise InvalidConfig(f"{here}: this field of Triton's is not offered by Trilith; remove it")
        allowed = honoured[field.name]
        if isinstance(allowed, Range):
            single = isinstance(value, int | float)
            yield from ((here, number, allowed) for number in ((value,) if single else value))
        elif allowed is not None:
            for at, nested in _messages(value):
                yield from _numbers(nested, allowed, f"{here}{at}.")


def _messages(value: Any) -> Iterator[tuple[str, Message]]:
    """The messages of a field, and where in it they are."""
    if isinstance(value, Message):
        yield "", value
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", nested) for key, nested in value.items())
    else:
        yield from ((f"[{at}]" if len(value) > 1 else "", nested) for at, nested in enumerate(value))

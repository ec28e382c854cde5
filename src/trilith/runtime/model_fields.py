"""Which fields of Triton's `ModelConfig` are honoured, and from where to where their numbers may be.

Rule 1: what is listed neither in `HONOURED` nor in `idle_fields` is refused by name. None is ignored.
Rule 2: a field that holds a number has a range, and a number outside is refused by its path with that range. Also one
that does not even fit its field: the parser of the text format would name a column, and no field.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf import text_format
from google.protobuf.message import Message

from trilith.errors import InvalidConfig
from trilith.runtime.idle_fields import IDLE
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
from trilith.wire.oip_messages import model_config_messages

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
    "runtime": None,
    "version_policy": {"latest": {"num_versions": UINT32}, "all": {}, "specific": {"versions": VERSIONS}},
    "max_batch_size": INT32,
    "input": {
        "name": None,
        "data_type": None,
        "format": None,
        "dims": DIMENSION,
        "reshape": {"shape": DIMENSION},
        "optional": None,
        "allow_ragged_batch": None,
    },
    "output": {
        "name": None,
        "data_type": None,
        "dims": DIMENSION,
        "reshape": {"shape": DIMENSION},
        "label_filename": None,
    },
    "batch_input": {"kind": None, "target_name": None, "data_type": None, "source_input": None},
    "batch_output": {"kind": None, "target_name": None, "source_input": None},
    "instance_group": {"name": None, "kind": None, "count": INSTANCES, "gpus": Range(0, INT32.most)},
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
    "metric_tags": None,
    "model_repository_agents": {"agents": {"name": None, "parameters": None}},
    # Present but empty, it says what is so anyway.
    "model_transaction_policy": {},
}

_NOT_SERVED: Final[Mapping[str, str]] = {
    "ensemble_scheduling": (
        "ensembles are not served yet, so this model cannot be. The models that it joins can: let a client or a "
        "service (docs/service.md) call one after the other"
    ),
    "sequence_batching": (
        "sequences are not served yet, so a model that keeps state from one request to the next cannot be. One that "
        "does not is served with `dynamic_batching { }` instead"
    ),
    "model_transaction_policy.decoupled": (
        "decoupled models are not served yet, so a model that gives any number of answers to a request cannot be. One "
        "that gives exactly one is served without this field"
    ),
}
_REFUSED: Final = "this field of Triton's is not offered by Trilith; remove it"

STRING_OR_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*')
"""What of the text format is no field."""
_ESCAPE: Final = re.compile(r"\\(?P<escaped>[0-7]{1,3}|[xX][0-9a-fA-F]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED: Final = frozenset("abfnrtv\\'\"?")
_TOKEN: Final = re.compile(r"[A-Za-z_]\w*|[{}<>]")
_NO_FIELD: Final = re.compile(r'Message type "(?P<message>[\w.]+)" has no field named "(?P<name>[^"]*)".*', re.DOTALL)
_NO_NUMBER: Final = re.compile(r": (?:Value out of range|Couldn't parse integer): (?P<got>\S+)$")


def field_problems(config: Message) -> list[str]:
    """What is said in vain, and the numbers that cannot be held; each begins with the path of its field."""
    return list(dict.fromkeys(_problems(config, HONOURED)))


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
        return field_that_was_meant(str(error))
    path = _path_at(text, error.GetLine() or 1, error.GetColumn() or 1)
    allowed: Any = HONOURED
    for name in path:
        if name != "value":  # of an entry of a mapping
            allowed = allowed.get(name) if isinstance(allowed, Mapping) else None
    where = f"line {error.GetLine()}: {'.'.join(path)}"
    if isinstance(allowed, Range):
        return allowed.refusal(where, found["got"]).message
    return f"{where}: {str(error).rpartition(' : ')[2]}"


def field_that_was_meant(problem: str) -> str:
    """What a parser of protobuf says of a field that there is not, without its list of all, and with the nearest."""
    found = _NO_FIELD.search(problem)
    if found is None:
        return problem
    try:
        message = model_config_messages().ModelConfig.DESCRIPTOR.file.pool.FindMessageTypeByName(found["message"])
    except KeyError:
        return problem
    near = difflib.get_close_matches(found["name"], [field.name for field in message.fields], n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"{problem[: found.start()]}{message.name} has no field {found['name']!r}{meant}"


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


def _problems(message: Message, honoured: _Tree, path: str = "", place: str = "") -> Iterator[str]:
    """`path` has the names alone; `place` says also which entry of a list."""
    for field, value in message.ListFields():
        here, there = f"{path}{field.name}", f"{place}{field.name}"
        if here in IDLE:
            _check_words(field, value, there)
            continue
        allowed = honoured.get(field.name)
        if field.name not in honoured and not any(known.startswith(f"{here}.") for known in IDLE):
            yield f"{there}: {_NOT_SERVED.get(here, _REFUSED)}"
        elif field.enum_type is not None:
            _check_words(field, value, there)
        elif isinstance(allowed, Range):
            for number in (value,) if isinstance(value, int | float) else value:
                if not allowed.least <= number <= allowed.most:
                    yield allowed.refusal(there, str(number)).message
        elif allowed is not None or field.name not in honoured:
            for at, nested in _messages(value):
                inner = allowed if isinstance(allowed, Mapping) else {}
                yield from _problems(nested, inner, f"{here}.", f"{there}{at}.")


def _check_words(field: Any, value: Any, place: str) -> None:
    """Sees that words are words: the text format takes numbers for them, and any; nothing behind can live with it."""
    if field.enum_type is not None:
        for number in (value,) if isinstance(value, int) else value:
            if number not in field.enum_type.values_by_number:
                words = ", ".join(field.enum_type.values_by_name)
                raise InvalidConfig(f"{place}: must be one of {words}, got {number}")
    elif field.message_type is not None:
        for at, nested in _messages(value):
            if isinstance(nested, Message):  # else it is a plain value of a mapping
                for inner, found in nested.ListFields():
                    _check_words(inner, found, f"{place}{at}.{inner.name}")


def _messages(value: Any) -> Iterator[tuple[str, Message]]:
    """The messages of a field, and where in it they are."""
    if isinstance(value, Message):
        yield "", value
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", nested) for key, nested in value.items())
    else:
        yield from ((f"[{at}]" if len(value) > 1 else "", nested) for at, nested in enumerate(value))

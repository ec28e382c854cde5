"""Do the contestants answer the same? A comparison of two things that do different work says nothing. Pure.

Rule: differences are told, never judged: only a person knows whether a longer answer is a better one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

_SIZE_RATIO: Final = 1.2
_SIZE_BYTES: Final = 32
_DEEPEST: Final = 4
_MOST_KEYS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShape:
    """What an answer looks like.

    Attributes:
        status: HTTP status, or 200 for a good one of another protocol.
        size_bytes: of the body.
        form: `{"lines": [text]}` for JSON, else "".
        protocol: `HTTP` or `gRPC`.
    """

    status: int
    size_bytes: int
    form: str
    protocol: str = "HTTP"

    @classmethod
    def of(cls, status: int, content: bytes, protocol: str = "HTTP") -> AnswerShape:
        """The shape of an answer with this body."""
        try:
            form = _form(msgspec.json.decode(content), 0)
        except (msgspec.DecodeError, RecursionError):
            form = ""
        return cls(status=status, size_bytes=len(content), form=form, protocol=protocol)

    def __str__(self) -> str:
        return f"status {self.status}, {self.size_bytes:,} bytes{f', {self.form}' if self.form else ''}"


def differing(names: Sequence[str], answers: Sequence[AnswerShape]) -> Iterator[str]:
    """What differs between the contestants' answers, the first one being what is asked for."""
    for name, answer in zip(names[1:], answers[1:], strict=True):
        what = _difference(answers[0], answer)
        if what:
            yield (
                f"The answers differ in {what}: {names[0]} gives {answers[0]}; {name} gives {answer}. Do they do the"
                " same work?"
            )


def changed(names: Sequence[str], before: Sequence[AnswerShape], after: Sequence[AnswerShape]) -> Iterator[str]:
    """Whose answer to the same request is another one after the load."""
    for name, first, last in zip(names, before, after, strict=True):
        what = _difference(first, last)
        if what:
            yield f"The answers of {name} changed their {what} during the comparison: first {first}; at the end {last}."


def _difference(first: AnswerShape, second: AnswerShape) -> str:
    if first.status != second.status:
        return "status"
    if first.protocol != second.protocol:
        return ""  # the same value has another form and size in each
    if first.form != second.form:
        return "form"
    small, large = sorted((first.size_bytes, second.size_bytes))
    return "size" if large - small > _SIZE_BYTES and large > _SIZE_RATIO * small else ""


def _form(value: Any, depth: int) -> str:
    """The types of a JSON value; of a list those of its first item."""
    if depth >= _DEEPEST:
        return "..."
    match value:
        case dict():
            keys = [f"{key}: {_form(inner, depth + 1)}" for key, inner in sorted(value.items())[:_MOST_KEYS]]
            return "{" + ", ".join([*keys, *(["..."] if len(value) > _MOST_KEYS else [])]) + "}"
        case list():
            return f"[{_form(value[0], depth + 1)}]" if value else "[]"
        case bool():
            return "true or false"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return "null"

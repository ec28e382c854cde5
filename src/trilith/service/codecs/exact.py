"""pydantic's schemas, made as strict as everything else that reads here: nothing is dropped, guessed or rounded.

Rule 1: a class that does not say what becomes of unknown keys refuses them, as methods do.
Rule 2: a duration has no years and no months: how long they are, each reader would have to guess.
Rule 3: JSON has no NaN and no infinity, whoever reads it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

_NO_SCHEMAS: Final = frozenset({"metadata", "default", "expected", "serialization"})  # parts of a schema that hold none
_BY_NAME: Final = frozenset({"fields", "choices"})  # schemas by names, which may be any
_SCALARS: Final = frozenset({"int", "float", "bool", "str", "bytes"})
_CALENDAR: Final = re.compile(r"\s*[-+]?P[^T]*[YM]", re.IGNORECASE)
_Change = Callable[[dict[str, Any]], dict[str, Any]]


def exact(schema: Any, read_duration: Callable[[Any], Any]) -> Any:
    """A schema for values of every origin; what it writes it reads as what it was.

    Args:
        schema: as pydantic makes it of an annotation.
        read_duration: what makes a `timedelta` of a text.
    """

    def change(part: dict[str, Any]) -> dict[str, Any]:
        kind = part.get("type")
        if kind in ("model", "dataclass", "typed-dict") and not part.get("root_model"):
            config = {"extra_fields_behavior": "forbid", **(part.get("config") or {})}
            if kind == "typed-dict":
                return part | {"extra_behavior": config["extra_fields_behavior"]}
            return part | {"config": config}
        if kind == "timedelta":
            return {
                "type": "function-before",
                "function": {"type": "no-info", "function": read_duration},
                "schema": part,
                "serialization": {
                    "type": "function-plain",
                    "function": _duration_text,
                    "when_used": "json",
                    "return_schema": {"type": "str"},
                },
                "metadata": {"pydantic_js_functions": [_duration_schema]},
            }
        return part

    return _walked(schema, change)


def finite(schema: Any) -> Any:
    """A schema for JSON, in which a number that overflows is none."""
    return _walked(schema, lambda part: part | {"allow_inf_nan": False} if part.get("type") == "float" else part)


def strict_scalars(schema: Any) -> Any:
    """A schema in which a text is no number, and the other way round."""
    return _walked(schema, lambda part: part | {"strict": True} if part.get("type") in _SCALARS else part)


def has_calendar(text: str) -> bool:
    """Whether an ISO 8601 duration has years or months."""
    return _CALENDAR.match(text) is not None


def _duration_text(value: Any) -> Any:
    """ISO 8601 in days and seconds."""
    return msgspec.to_builtins(value) if isinstance(value, datetime.timedelta) else value


def _duration_schema(schema: Any, handler: Any) -> dict[str, Any]:
    return {"type": "string", "format": "duration"}


def _walked(schema: Any, change: _Change) -> Any:
    if isinstance(schema, list | tuple):
        return type(schema)(_walked(part, change) for part in schema)
    if not isinstance(schema, dict):
        return schema
    return change({key: _part(key, part, change) for key, part in schema.items()})


def _part(key: str, part: Any, change: _Change) -> Any:
    if key in _BY_NAME and isinstance(part, dict):
        return {name: _walked(inner, change) for name, inner in part.items()}
    return part if key in _NO_SCHEMAS else _walked(part, change)

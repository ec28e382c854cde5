"""Headers of a client's calls: those that its caller gave, and those of the call that it is made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trilith.core.context import current_context
from trilith.errors import InvalidConfig
from trilith.wire.http1.request_head import header_fault

_TRACE: Final = ("traceparent", "tracestate")


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that a caller gave, by name in lower case.

    Raises:
        InvalidConfig: HTTP does not allow one.
    """
    given: object = headers  # not everybody has a type checker
    if not isinstance(given, Mapping):
        raise InvalidConfig(f"headers: expected names and values of text by name, got a {type(given).__name__}")
    for name, value in headers.items():
        fault = header_fault(name, value)
        if fault:
            raise InvalidConfig(f"headers: {fault}")
    return {name.lower(): value for name, value in headers.items()}


def trace_of_caller() -> dict[str, str]:
    """The trace of the call that this one is made for, as it came or as this server began it."""
    context = current_context.get()
    if context is None or _TRACE[0] not in context.headers:
        return {}
    found = {name: context.headers[name] for name in _TRACE if name in context.headers}
    return {name: value for name, value in found.items() if not header_fault(name, value)}

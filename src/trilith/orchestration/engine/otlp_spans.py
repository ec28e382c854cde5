"""Timelines as spans of OTLP/JSON. What wall clock and monotonic clock are apart is an argument.

    SERVER    gateway Ocr.read                  received .. answered
    INTERNAL    service Ocr.read                what the replica did; its id is what it sends on as `traceparent`
    CLIENT        call Recognizer.read          sent .. answered
    ...             gateway Recognizer.read     and so on

Rule: a stamp of a timeline is an event of its span. A timeline without two stamps has no length, and is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

from trilith.core.timeline import Timeline
from trilith.telemetry import Span

_KINDS: Final = {"gateway": 2, "call": 3}  # SERVER, CLIENT; all else is INTERNAL
_INTERNAL: Final = 1
_ERROR: Final = 2
_SCOPE: Final = "trilith"
_DEEPEST: Final = 64

Ended = tuple[Span, str, str]
"""A span that is over, the code of its error ("" for none), and the error's message."""


def trace_request(ended: Iterable[Ended], offset_s: float, version: str) -> dict[str, Any]:
    """The body of an export.

    Args:
        ended: the calls.
        offset_s: the wall clock less the monotonic one, in seconds.
        version: of Trilith.
    """
    by_service: dict[str, list[dict[str, Any]]] = {}
    for span, code, message in ended:
        if span.timeline is not None:
            _Writer(span, offset_s, by_service).write(code, message)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute("service.name", service)]},
                "scopeSpans": [{"scope": {"name": _SCOPE, "version": version}, "spans": spans}],
            }
            for service, spans in by_service.items()
        ]
    }


class _Writer:
    def __init__(self, span: Span, offset_s: float, by_service: dict[str, list[dict[str, Any]]]) -> None:
        self._span = span
        self._offset_s = offset_s
        self._by_service = by_service
        self._count = 0
        self._service_named = False

    def write(self, code: str, message: str) -> None:
        """All spans of one call."""
        span, timeline = self._span, self._span.timeline
        if timeline is None:
            return
        root = self._one(timeline, span.span_id, span.parent_id)
        if root is None:
            return
        root["name"] = span.name or root["name"]
        root["attributes"].append(_attribute("trilith.request_id", span.request_id))
        if span.identity:
            root["attributes"].append(_attribute("enduser.id", span.identity))
        if code:
            root["attributes"].append(_attribute("error.type", code))
            root["status"] = {"code": _ERROR, "message": message}
        self._children(timeline, span.span_id, 0)

    def _children(self, timeline: Timeline, parent_id: str, depth: int) -> None:
        if depth > _DEEPEST:
            return
        for child in timeline.children:
            span_id = self._id(child)
            written = self._one(child, span_id, parent_id)
            self._children(child, parent_id if written is None else span_id, depth + 1)

    def _id(self, timeline: Timeline) -> str:
        if not self._service_named and timeline.name.startswith("service "):
            self._service_named = True
            return self._span.service_span_id
        self._count += 1
        seed = f"{self._span.span_id}/{self._count}".encode()
        return hashlib.blake2b(seed, digest_size=8).hexdigest()

    def _one(self, timeline: Timeline, span_id: str, parent_id: str) -> dict[str, Any] | None:
        stamps = [(stage, instant) for stage, instant in timeline.stamps if instant > 0]
        if len(stamps) < 2:
            return None
        floor, _, what = timeline.name.partition(" ")
        service = what.partition(".")[0] if floor in ("service", "gateway") and what else _SCOPE
        instants = [instant for _, instant in stamps]
        written: dict[str, Any] = {
            "traceId": self._span.trace_id,
            "spanId": span_id,
            "name": what or floor,
            "kind": _KINDS.get(floor, _INTERNAL),
            "startTimeUnixNano": self._nanoseconds(min(instants)),
            "endTimeUnixNano": self._nanoseconds(max(instants)),
            "attributes": [_attribute("trilith.part", floor), _attribute("trilith.floor", timeline.floor)],
            "events": [{"name": stage, "timeUnixNano": self._nanoseconds(instant)} for stage, instant in stamps],
        }
        if parent_id:
            written["parentSpanId"] = parent_id
        self._by_service.setdefault(service, []).append(written)
        return written

    def _nanoseconds(self, instant: float) -> str:
        return str(round((instant + self._offset_s) * 1e9))


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    kind = {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}
    return {"key": key, "value": kind}

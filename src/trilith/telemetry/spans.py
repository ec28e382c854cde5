"""Traces as OpenTelemetry knows them, made of timelines that are recorded anyway.

Rule 1: a caller that says whether its trace is sampled is believed (W3C Trace Context); else a part of the calls is.
Rule 2: a call that is not sampled costs one look at its headers. Nothing is computed of one that is until it is over,
    and then not on the thread that answers.
"""

from __future__ import annotations

import random
import re
import secrets
from typing import Final, Protocol

import msgspec

from trilith.core.identity import Identity
from trilith.core.timeline import Timeline
from trilith.errors import TrilithError

TRACEPARENT: Final = "traceparent"
TRACERESPONSE: Final = b"traceresponse"
"""The header of an answer that names its trace (W3C Trace Context, level 2)."""

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NONE_TRACE: Final = "0" * 32
_NONE_SPAN: Final = "0" * 16


class Span(msgspec.Struct, eq=False, kw_only=True):
    """One sampled call, while it is under way and until it is exported.

    Attributes:
        trace_id, span_id, parent_id: in hexadecimal; no parent is "".
        service_span_id: of what the service itself does, which its own calls name as their parent.
        request_id: of the call.
        identity: who the access check says the caller is; "" for nobody.
        asked: the caller asked for its timeline too.
        timeline: of the call, once it is answered.
        name: what the span is called where the timeline does not say it.
    """

    trace_id: str
    span_id: str
    service_span_id: str
    parent_id: str
    request_id: str
    identity: str = ""
    asked: bool = False
    timeline: Timeline | None = None
    name: str = ""

    @property
    def header(self) -> tuple[bytes, bytes]:
        """The header of the answer that names the trace."""
        return TRACERESPONSE, f"00-{self.trace_id}-{self.span_id}-01".encode()

    @property
    def parent_of_service(self) -> str:
        """What the service sends on, as `traceparent`."""
        return f"00-{self.trace_id}-{self.service_span_id}-01"


class RequestTracer(Protocol):
    """Traces requests of any protocol."""

    def sample(self, traceparent: str, request_id: str, *, identity: Identity | None) -> Span | None:
        """The span of a request; None: it is not sampled. `traceparent`: the header, "" for none."""
        ...

    def ended(self, span: Span, timeline: Timeline, error: TrilithError | None) -> None:
        """A request is over; nothing is added to its timeline any more."""
        ...


class Sampler:
    """Decides which calls are traced."""

    def __init__(self, part: float) -> None:
        """`part`: of the calls whose caller does not say, 0 to 1."""
        self._part = part

    def begin(self, traceparent: str, request_id: str, *, identity: str = "", asked: bool = False) -> Span | None:
        """The span of a call; None: it is not sampled.

        Args:
            traceparent: the header, "" for none. One that is malformed is as none.
            request_id: of the call.
            identity: of its caller.
            asked: its caller asked for the timeline.
        """
        trace_id, parent_id, sampled = read_traceparent(traceparent)
        if sampled is None:
            sampled = random.random() < self._part
        if not sampled:
            return None
        return Span(
            trace_id=trace_id or secrets.token_hex(16),
            span_id=secrets.token_hex(8),
            service_span_id=secrets.token_hex(8),
            parent_id=parent_id,
            request_id=request_id,
            identity=identity,
            asked=asked,
        )


def read_traceparent(text: str) -> tuple[str, str, bool | None]:
    """Trace id, parent id, and whether it is sampled; `"", "", None` for what is none."""
    found = _PARENT.fullmatch(text)
    if found is None or found[1] == "ff" or found[2] == _NONE_TRACE or found[3] == _NONE_SPAN:
        return "", "", None
    if found[1] == "00" and found[5]:
        return "", "", None
    return found[2], found[3], bool(int(found[4], 16) & 1)

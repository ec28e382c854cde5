"""Sends what was sampled to an OpenTelemetry collector (OTLP over HTTP, as JSON), from a thread of its own.

Rule 1: a call never waits for it: a queue that is full drops what comes, and counts it.
Rule 2: a collector that does not answer costs what it was sent, and nothing else; what comes next is sent again.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import queue
import threading
import time
import urllib.parse
from typing import Final

import msgspec

from trilith import __version__
from trilith.core.data_options import TraceOptions
from trilith.core.identity import Identity
from trilith.core.timeline import Timeline
from trilith.errors import TrilithError
from trilith.orchestration.engine.calls import PendingCall
from trilith.orchestration.engine.otlp_spans import Ended, trace_request
from trilith.telemetry import Metrics, Sampler, Span
from trilith.telemetry.spans import TRACEPARENT
from trilith.wire.calls import pack_headers

_log: Final = logging.getLogger("trilith.traces")
_MOST_WAITING: Final = 2048
_MOST_AT_ONCE: Final = 256
_GATHER_S: Final = 0.5
_WITHIN_S: Final = 10.0
_COMPLAIN_EVERY_S: Final = 60.0
_PATH: Final = "/v1/traces"


class Tracer:
    """Samples calls, and exports those that were when they are over. Made once a gateway; `start` begins.

    Args:
        options: which calls, and where to.
        metrics: gets what was exported and dropped.
    """

    def __init__(self, options: TraceOptions, metrics: Metrics) -> None:
        parts = urllib.parse.urlsplit(options.endpoint)
        self._secure = parts.scheme == "https"
        self._place = parts.netloc
        self._path = parts.path if parts.path not in ("", "/") else _PATH
        self._sampler = Sampler(options.part)
        self._queue: queue.Queue[Ended | None] = queue.Queue(_MOST_WAITING)
        outcomes = metrics.counter(
            "trilith_traces_total", "Calls whose traces were sent, or dropped on the way.", ("outcome",)
        )
        self._sent, self._dropped = outcomes.labelled("sent"), outcomes.labelled("dropped")
        self._thread = threading.Thread(target=self._run, name="trilith traces", daemon=True)
        self._complained_at = -_COMPLAIN_EVERY_S

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def begin(
        self, forwarded: msgspec.Raw, request_id: str, *, identity: object = None, asked: bool
    ) -> tuple[Span | None, msgspec.Raw]:
        """The span of a call, None when it is not sampled; and what its service reads of its headers."""
        headers: dict[str, str] = msgspec.msgpack.decode(forwarded)
        who = str(getattr(identity, "name", "") or "")
        span = self._sampler.begin(headers.get(TRACEPARENT, ""), request_id, identity=who, asked=asked)
        if span is None:
            return None, forwarded
        headers[TRACEPARENT] = span.parent_of_service
        return span, pack_headers(headers)

    def finish(self, call: PendingCall, error: TrilithError | None) -> None:
        """A call is over."""
        span = call.span
        if span is None:
            return
        self.ended(span, call.timeline(None) if span.timeline is None else span.timeline, error)

    def sample(self, traceparent: str, request_id: str, *, identity: Identity | None) -> Span | None:
        """See `RequestTracer`."""
        return self._sampler.begin(traceparent, request_id, identity="" if identity is None else identity.name)

    def ended(self, span: Span, timeline: Timeline, error: TrilithError | None) -> None:
        """See `RequestTracer`."""
        span.timeline = timeline
        code, message = ("", "") if error is None else (error.code, error.message)
        try:
            self._queue.put_nowait((span, code, message))
        except queue.Full:
            self._dropped.value += 1

    def close(self, timeout_s: float) -> None:
        """Sends what waits, for at most `timeout_s` seconds."""
        with contextlib.suppress(queue.Full):  # nobody takes them: what waits is lost, as said
            self._queue.put(None, timeout=timeout_s)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        ended = False
        while not ended:
            batch, ended = self._batch()
            if batch:
                self._send(batch)

    def _batch(self) -> tuple[list[Ended], bool]:
        """What has come within a moment, and whether it was the last."""
        found = self._queue.get()
        batch: list[Ended] = []
        until = time.monotonic() + _GATHER_S
        while found is not None:
            batch.append(found)
            left_s = until - time.monotonic()
            if len(batch) >= _MOST_AT_ONCE or left_s <= 0:
                return batch, False
            try:
                found = self._queue.get(timeout=left_s)
            except queue.Empty:
                return batch, False
        return batch, True

    def _send(self, batch: list[Ended]) -> None:
        try:
            body = msgspec.json.encode(trace_request(batch, time.time() - time.monotonic(), __version__))
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            with contextlib.closing(kind(self._place, timeout=_WITHIN_S)) as connection:
                connection.request("POST", self._path, body, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
            if answer.status >= 300:
                raise ConnectionError(f"it answered {answer.status} {answer.reason}")
        except Exception as error:  # noqa: BLE001 - whatever a network does, calls go on
            self._dropped.value += len(batch)
            self._complain(error)
        else:
            self._sent.value += len(batch)

    def _complain(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._complained_at >= _COMPLAIN_EVERY_S:
            self._complained_at = now
            _log.warning("traces could not be sent to %s: %s", self._place, error)

"""When each thing happened to one request.

Rule 1: a timeline is a list of (stage, instant); every duration anyone reports is a subtraction of two of them.
Rule 2: recording is one append. Nothing is computed on the request path.
Rule 3: children nest: the timeline of a call to another service or model hangs under its caller's.

The stages of one call, in order. Not every call has each of them:

    received -> decoded -> admitted -> queued -> batched -> sent -> started
             -> input -> infer -> output -> encoded -> answered

A stream's have `first_item` and `last_item` between `started` and `infer`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

RECEIVED: Final = "received"  # the last byte of the request was read
DECODED: Final = "decoded"  # bytes became values
ADMITTED: Final = "admitted"  # limits passed
QUEUED: Final = "queued"  # entered the central queue
BATCHED: Final = "batched"  # left the queue in a batch
SENT: Final = "sent"  # handed to the worker's connection or instance thread
STARTED: Final = "started"  # the worker or instance began on it
FIRST_ITEM: Final = "first_item"  # of a stream: its first item was there ...
LAST_ITEM: Final = "last_item"  # ... and its last
INPUT: Final = "input"  # input tensors are assembled
INFER: Final = "infer"  # the model's execution, or the user's method, returned
OUTPUT: Final = "output"  # output tensors are split per request
ENCODED: Final = "encoded"  # values became bytes
ANSWERED: Final = "answered"  # the answer was handed to the socket

TIMELINE_HEADER: Final = b"trilith-timeline"
"""A request that sends `1` under this name (in gRPC: as metadata) gets its timeline as JSON under the same name."""
TIMELINE_AT_HEADER: Final = b"trilith-timeline-at"
"""Comes instead, with the path to get it from, when the timeline is too long for a header."""


class Timeline(msgspec.Struct, eq=False):  # a Struct is made in half the time of a class: one a call
    """The stamps of one call and of the calls that it made.

    Attributes:
        name: who: `gateway`, `service Ocr.read`, `model ocr-rec`. Its first word is the floor's part.
        floor: 1 runtime, 2 service, 3 orchestration (gateway, queue, transport).
        stamps: (stage, instant in seconds on the machine's monotonic clock), in order of time.
        children: timelines of the calls made on behalf of this one.
    """

    name: str
    floor: int
    stamps: list[tuple[str, float]] = []
    children: list[Timeline] = []

    def mark(self, stage: str, instant: float) -> None:
        """Records that `stage` was reached at `instant` (seconds)."""
        self.stamps.append((stage, instant))

    def child(self, name: str, floor: int) -> Timeline:
        """Adds and returns the timeline of a call made on behalf of this one."""
        nested = Timeline(name, floor)
        self.children.append(nested)
        return nested

    def adopt(self, nested: Timeline) -> None:
        """Hangs a timeline that came from another process under this one."""
        self.children.append(nested)

    def duration(self) -> float:
        """Seconds from the first stamp to the last; 0.0 when there are fewer than two."""
        return self.stamps[-1][1] - self.stamps[0][1] if len(self.stamps) > 1 else 0.0

    def to_builtins(self) -> list[Any]:
        """`[name, floor, [[stage, instant], ...], [children...]]`: JSON- and msgpack-ready."""
        return [
            self.name,
            self.floor,
            [[stage, instant] for stage, instant in self.stamps],
            [nested.to_builtins() for nested in self.children],
        ]

    @classmethod
    def from_builtins(cls, raw: Any) -> Timeline:
        """The inverse of `to_builtins`.

        Raises:
            ValueError: `raw` is not of that form.
        """
        try:
            name, floor, stamps, children = raw
            timeline = cls(str(name), int(floor))
            timeline.stamps = [(str(stage), float(instant)) for stage, instant in stamps]
            timeline.children = [cls.from_builtins(nested) for nested in children]
        except (TypeError, ValueError) as error:
            raise ValueError(f"a timeline is [name, floor, stamps, children], got {raw!r:.200}") from error
        return timeline

    def __repr__(self) -> str:
        stages = " ".join(stage for stage, _ in self.stamps)
        return f"<Timeline {self.name} {self.duration() * 1e3:.3f} ms: {stages}, {len(self.children)} children>"

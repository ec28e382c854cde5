"""What a `RequestReader` saw, as plain values that compare."""

from dataclasses import dataclass, field

from trilith.wire.http1 import HttpLimits, Refusal, RequestReader


@dataclass
class Seen:
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    complete: bool = False


@dataclass
class Recorder:
    """A sink that remembers."""

    seen: list[Seen] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)

    def head_received(self, reader: RequestReader) -> None:
        target = reader.path + ("?" + reader.query if reader.query else "")
        self.seen.append(Seen(reader.method, target, reader.headers))

    def body_received(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self.seen[-1].body += chunk

    def message_received(self) -> None:
        self.seen[-1].complete = True


def read(*pieces: bytes, limits: HttpLimits | None = None) -> tuple[list[Seen], Refusal | None, RequestReader]:
    """Feeds the pieces; returns what was seen, the refusal, and the reader."""
    recorder = Recorder()
    reader = RequestReader(recorder, limits or HttpLimits())
    refused = None
    for piece in pieces:
        refused = reader.feed(piece) or refused
    return recorder.seen, refused, reader

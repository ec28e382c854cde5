"""One request before the load: is anybody there, does it like what we send, does it tell its timeline?"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import httptools
import msgspec

from trilith.core.timeline import TIMELINE_AT_HEADER, TIMELINE_HEADER
from trilith.errors import SetupError
from trilith.measure.load.example import example_in
from trilith.measure.load.target import Body, Target, prepare

_EXCERPT_CHARACTERS: Final = 300
_MOST_KEPT_BYTES: Final = 16 << 20  # of a body: what describes a service fits, and no answer fills the memory
_LONGEST_HEAD_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """What came back.

    Attributes:
        status: HTTP status.
        content: the body, or the first 16 MiB of it.
        has_timeline: whether the answer carries a timeline.
        content_type: of the body; "" when the answer does not say.
    """

    status: int
    content: bytes
    has_timeline: bool
    content_type: str = ""

    @property
    def excerpt(self) -> str:
        """The beginning of the body on one line, for a message."""
        return " ".join(self.content[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace").split())[
            :_EXCERPT_CHARACTERS
        ]


class _AnswerReader:
    """Collects one answer from the parser."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.body = bytearray()
        self.has_timeline = False
        self.content_type = ""
        self.head_complete = False
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self.has_timeline = self.has_timeline or name.lower() in (TIMELINE_HEADER, TIMELINE_AT_HEADER)
        if name.lower() == b"content-type":
            self.content_type = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The end of a head, perhaps of an interim one."""
        self.head_complete = self.parser.get_status_code() >= 200

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self.body += body[: _MOST_KEPT_BYTES - len(self.body)]

    def on_message_complete(self) -> None:
        """The end of a message, perhaps of an interim one."""
        self.complete = self.parser.get_status_code() >= 200


def probe(
    target: Target,
    method: str,
    body: Body | None,
    headers: Sequence[tuple[str, str]] = (),
    *,
    timeout_s: float = 30.0,
) -> ProbeAnswer:
    """Sends one request, just as the load will, and waits for the end of the answer, for `timeout_s` in all. Blocks.

    The bytes are those of the load, which no other client would send just so.

    Raises:
        SetupError: no HTTP answer comes; the message says why and what to check.
    """
    request = prepare(target, method, body, headers)
    ends_at = time.monotonic() + timeout_s
    reader = _AnswerReader()
    try:
        with (
            socket.create_connection((target.host, target.port), timeout_s) as plain,
            _secured(plain, target) as stream,
        ):
            stream.sendall(b"".join(request.sampled))
            return _read_answer(stream, reader, ends_at)
    except TimeoutError as error:
        told = "began an answer that did not end" if reader.head_complete else "gave no answer"
        raise SetupError(f"{target.url} {told} within {timeout_s:g} s; is it busy, or --timeout too short?") from error
    except ConnectionRefusedError as error:
        raise SetupError(
            f"nothing listens at {target.host}:{target.port} (connection refused); start the server, or check the URL"
        ) from error
    except (OSError, httptools.HttpParserError) as error:
        reason = str(error) or type(error).__name__
        raise SetupError(f"{target.url} gives no HTTP answer: {reason}") from error


def _secured(plain: socket.socket, target: Target) -> socket.socket:
    if not target.tls:
        return plain
    return ssl.create_default_context().wrap_socket(plain, server_hostname=target.host)


def _read_answer(stream: socket.socket, reader: _AnswerReader, ends_at: float) -> ProbeAnswer:
    head_bytes = 0
    while not reader.complete:
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        stream.settimeout(left_s)
        data = stream.recv(1 << 18)
        if not data:
            if not reader.head_complete:
                raise ConnectionResetError("the connection was closed before an answer")
            break
        reader.parser.feed_data(data)
        head_bytes += 0 if reader.head_complete else len(data)
        if head_bytes > _LONGEST_HEAD_BYTES:
            raise OSError(f"the head of its answer has more than {_LONGEST_HEAD_BYTES >> 20} MiB")
    return ProbeAnswer(
        status=reader.parser.get_status_code(),
        content=bytes(reader.body),
        has_timeline=reader.has_timeline,
        content_type=reader.content_type,
    )


def example_body(target: Target, *, timeout_s: float = 5.0) -> Body | None:
    """A body for the endpoint's POST by the server's `/openapi.json`; None when that says nothing about it.

    Raises:
        SetupError: nobody answers.
    """
    document = Target(host=target.host, port=target.port, tls=target.tls, path="/openapi.json")
    answer = probe(document, "GET", None, timeout_s=timeout_s)
    if answer.status != 200:
        return None
    try:
        description = msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        return None
    return example_in(description, target.path.partition("?")[0])

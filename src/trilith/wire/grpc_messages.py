"""gRPC over HTTP/2 in octets: framed messages, timeouts, status trailers (gRPC's PROTOCOL-HTTP2.md).

Rule: sans-I/O, and nothing about HTTP/2 frames. `MessageReader` is the same for one message and for a stream of them.
What a compressed message holds is another file's matter (`grpc_compression.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

from trilith.errors import InvalidInput, PayloadTooLarge
from trilith.wire.grpc_status import GrpcStatus
from trilith.wire.http2 import Field
from trilith.wire.pieces import Pieces

PREFIX_BYTES: Final = 5
_MAX_STATUS_MESSAGE_BYTES: Final = 4096
_LEAST_TEXT_BYTES: Final = 16  # less says nothing
_TIMEOUT_UNITS_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MESSAGE_SAFE: Final = "".join(chr(octet) for octet in range(0x20, 0x7F) if chr(octet) != "%")


def message_prefix(size_bytes: int, *, compressed: bool = False) -> bytes:
    """The five octets before a message."""
    return (b"\1" if compressed else b"\0") + size_bytes.to_bytes(4, "big")


class Compressed:
    """A message in its compressed form, as it came. Its length is that of this form."""

    __slots__ = ("octets",)

    def __init__(self, octets: bytes | memoryview) -> None:
        self.octets = octets

    def __len__(self) -> int:
        return len(self.octets)


Message = bytes | memoryview | Compressed
"""A message as it came from the wire."""


class MessageReader:
    """Cuts messages out of a body that comes in pieces of any size.

    A message that comes whole in one piece is sliced out of it; of a larger one, what has come is kept, and no memory
    is taken for what was only declared.
    """

    __slots__ = ("_begun", "_compressed", "_head", "_max_message_bytes", "_size", "completed")

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._head = b""
        self._begun: Pieces | None = None
        self._size = 0
        self._compressed = False
        self.completed = 0
        """Messages read so far."""

    @property
    def at_boundary(self) -> bool:
        """True when no message is half read."""
        return self._begun is None and not self._head

    def feed(self, piece: bytes) -> list[Message]:
        """The messages that this piece completes.

        Raises:
            PayloadTooLarge: a message declares more than `max_message_bytes`.
            InvalidInput: the prefix of a message is malformed.
        """
        messages: list[Message] = []
        if self._head:
            piece, self._head = self._head + piece, b""
        position, end = 0, len(piece)
        while position < end:
            if self._begun is None:
                if end - position < PREFIX_BYTES:
                    self._head = piece[position:]
                    break
                size = self._declared_size(piece, position)
                position += PREFIX_BYTES
                if end - position >= size:
                    self._add(messages, piece[position : position + size])
                    position += size
                    continue
                self._begun, self._size = Pieces(), size
            position += self._collect(piece, position, messages)
        self.completed += len(messages)
        return messages

    def _collect(self, piece: bytes, position: int, messages: list[Message]) -> int:
        begun = self._begun
        if begun is None:
            return 0
        taken = min(len(piece) - position, self._size - begun.size_bytes)
        begun.add(piece[position : position + taken])
        if begun.size_bytes == self._size:
            self._add(messages, begun.whole())
            self._begun = None
        return taken

    def _add(self, messages: list[Message], octets: bytes | memoryview) -> None:
        messages.append(Compressed(octets) if self._compressed else octets)

    def _declared_size(self, piece: bytes, position: int) -> int:
        flag = piece[position]
        size = int.from_bytes(piece[position + 1 : position + PREFIX_BYTES], "big")
        self._compressed = flag == 1
        if flag > 1:
            raise InvalidInput(f"the first octet of a gRPC message is 0 or 1, got {flag}")
        if size > self._max_message_bytes:
            raise PayloadTooLarge(
                f"the message has {size} bytes, over the limit of {self._max_message_bytes} (--max-body-mb)"
            )
        return size


def parse_timeout(value: bytes) -> float:
    """Seconds of a `grpc-timeout` (one to eight digits and a unit).

    Raises:
        InvalidInput: it is malformed.
    """
    unit = _TIMEOUT_UNITS_S.get(value[-1:])
    digits = value[:-1]
    if unit is None or not digits.isdigit() or len(digits) > 8:
        raise InvalidInput(
            f"grpc-timeout: expected one to eight digits and one of H M S m u n, got {value.decode('latin-1')!r}"
        )
    return int(digits) * unit


def encode_status_message(message: str, max_bytes: int = _MAX_STATUS_MESSAGE_BYTES) -> bytes:
    """A sentence as `grpc-message`: UTF-8, percent-encoded outside printable ASCII.

    One that is too long keeps its beginning and its end: what a client sent (an id, a name) stands between them and may
    be of any length.
    """
    most = min(max_bytes, _MAX_STATUS_MESSAGE_BYTES)
    # A character takes one octet at least: what cannot fit is not even encoded.
    encoded = _quoted(message) if len(message) <= most else b""
    if not encoded or len(encoded) > most:
        encoded = _shortened(message, most)
    return encoded


def list_bytes(fields: Iterable[Field]) -> int:
    """The size of a header list as HTTP/2 bounds it: 32 octets a field on top (RFC 9113 section 6.5.2)."""
    return sum(len(name) + len(value) + 32 for name, value in fields)


def status_trailers(
    status: GrpcStatus, message: str = "", extra: Sequence[Field] = (), *, max_list_bytes: int | None = None
) -> list[Field]:
    """The trailers that end a call.

    Args:
        status: the status.
        message: for a person.
        extra: further trailing metadata.
        max_list_bytes: the longest list that the client takes, less what else stands in it. Over it a client ends the
            call with a status of its own; so the text gives way, then the metadata, and the status is always there.
    """
    fields: list[Field] = [(b"grpc-status", b"%d" % status)]
    text: list[Field] = [(b"grpc-message", encode_status_message(message))] if message else []
    if max_list_bytes is None or list_bytes([*fields, *text, *extra]) <= max_list_bytes:
        return [*fields, *text, *extra]
    room = max_list_bytes - list_bytes(fields)
    if text:
        for_text = room - len(b"grpc-message") - 32
        beside = for_text - list_bytes(extra)
        if beside < _LEAST_TEXT_BYTES:  # the sentence alone
            beside, extra = for_text, ()
        shortened = encode_status_message(message, beside)
        text = [(b"grpc-message", shortened)] if shortened else []
    if list_bytes(text) + list_bytes(extra) > room:
        extra = ()
    return [*fields, *text, *extra]


def _quoted(text: str) -> bytes:
    encoded = quote(text, safe=_MESSAGE_SAFE, errors="replace").encode("ascii")
    # Blanks at the ends would be lost, or refused, as field whitespace.
    return encoded.replace(b" ", b"%20") if encoded[:1] == b" " or encoded[-1:] == b" " else encoded


def _shortened(text: str, most: int) -> bytes:
    """The beginning and the end of a text in at most so many octets: cut between characters, not in their escapes."""
    kept = min(len(text), most) // 2
    while kept > 0:
        encoded = _quoted(f"{text[:kept]}...{text[-kept:]}")
        if len(encoded) <= most:
            return encoded
        kept = min(kept - 1, kept * most // len(encoded))
    return b""

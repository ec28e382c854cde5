"""Streaming methods over websockets, without I/O: what of a handshake is the call's, and what a message and an end are.

Each message is an item, either way: JSON in text messages, bytes in binary ones. An empty text ends those that go in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trilith.errors import (
    CallerError,
    CapacityError,
    Draining,
    MethodNotAllowed,
    PayloadTooLarge,
    TrilithError,
    UnsupportedMediaType,
)
from trilith.wire.stream_formats import BYTES, JSON
from trilith.wire.websocket import FAILED, GOING_AWAY, POLICY, TOO_BIG, TRY_LATER, UNSUPPORTED_DATA

_HANDSHAKE: Final = b"sec-websocket-"
_HANDSHAKE_FIELDS: Final = frozenset((b"upgrade", b"connection", b"content-type"))
_ACCEPT: Final = b"accept"
_NPY: Final = "application/x-npy"
_NPY_START: Final = b"\x93NUMPY"

Fields = tuple[tuple[bytes, bytes], ...]


def call_headers(headers: Iterable[tuple[bytes, bytes]], form: str | None) -> Fields:
    """What a method may read: without the handshake's own, and with the form that items are wanted in.

    Args:
        headers: of the handshake, names in lower case.
        form: of the items; None when the method has one result.
    """
    kept = [field for field in headers if field[0] not in _HANDSHAKE_FIELDS and not field[0].startswith(_HANDSHAKE)]
    if form is None:
        return tuple(kept)
    return (*(field for field in kept if field[0] != _ACCEPT), (_ACCEPT, form.encode()))


def item_form(offers: Iterable[str]) -> str:
    """The form in which the items of a method go. `offers`: its content types, the default first."""
    return BYTES if next(iter(offers), "") == BYTES else JSON


def message_type(message: str | bytes) -> str:
    """The content type of a message."""
    if isinstance(message, str):
        return JSON
    return _NPY if message.startswith(_NPY_START) else BYTES


def is_text(content_type: str) -> bool:
    """Whether a result of that type goes in a text message."""
    return content_type.startswith((JSON, "text/"))


def no_stream(where: str) -> MethodNotAllowed:
    """Why a method takes no websocket."""
    return MethodNotAllowed(f"{where} has no stream that would need a websocket: send it a POST")


def unasked(where: str, limit_s: float) -> str:
    """That no arguments came."""
    return (
        f"{where}: neither a query string nor a first message gave its arguments within {limit_s:g} s; send them as a"
        " JSON object"
    )


def unwanted(where: str, *, takes: bool) -> str:
    """That a message came which is no item. `takes`: the method takes a stream."""
    if takes:
        return f"{where}: a message came behind the empty one, which ends the items"
    return f"{where} takes no stream: a message came that is not its arguments"


def close_code(error: TrilithError) -> int:
    """With which code a websocket is closed that failed."""
    if isinstance(error, UnsupportedMediaType):
        return UNSUPPORTED_DATA
    if isinstance(error, PayloadTooLarge):
        return TOO_BIG
    if isinstance(error, Draining):
        return GOING_AWAY
    if isinstance(error, CapacityError):
        return TRY_LATER
    return POLICY if isinstance(error, CallerError) else FAILED

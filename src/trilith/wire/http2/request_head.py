"""A header list as a request: the checks of RFC 9113 section 8, made once for each distinct block.

Names and values are octets; nothing is decoded to text.
"""

from __future__ import annotations

import re
from typing import Final

Field = tuple[bytes, bytes]

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_BAD_VALUE: Final = re.compile(rb"[\x00\r\n]|^[ \t]|[ \t]$")
_CONNECTION_FIELDS: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
_PSEUDO_FIELDS: Final = frozenset((b":method", b":scheme", b":authority", b":path"))


class MalformedHeaders(Exception):
    """The list breaks a rule of HTTP: the stream is reset with PROTOCOL_ERROR."""


class RequestHead:
    """The head of one request. Cached with its header block, so many requests may share one: treat it as constant.

    Attributes:
        method: `:method`.
        path: `:path`, with its query.
        authority: `:authority`, or `host`, or empty.
        fields: the fields that are not pseudo-fields, in order, duplicates kept.
        content_length: of the body, or None when it is not declared.
        memo: for the layer above, to keep what it derived from this head.
    """

    __slots__ = ("authority", "content_length", "fields", "memo", "method", "path")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        pseudo = _pseudo_fields(fields)
        self.method = pseudo[b":method"]
        self.path = pseudo[b":path"]
        self.fields = fields[len(pseudo) :]
        _check_fields(self.fields)
        self.authority = pseudo.get(b":authority") or self.field(b"host") or b""
        self.content_length = _content_length(self.fields)
        self.memo: object = None

    def field(self, name: bytes) -> bytes | None:
        """The first value of a field, or None."""
        for candidate, value in self.fields:
            if candidate == name:
                return value
        return None


def check_trailers(fields: tuple[Field, ...]) -> None:
    """Checks the fields after a body.

    Raises:
        MalformedHeaders: a pseudo-field, or a field that no request may have.
    """
    _check_fields(fields)


def _pseudo_fields(fields: tuple[Field, ...]) -> dict[bytes, bytes]:
    pseudo: dict[bytes, bytes] = {}
    for name, value in fields:
        if not name.startswith(b":"):
            break
        if name not in _PSEUDO_FIELDS or name in pseudo:
            raise MalformedHeaders(f"the pseudo-field {name!r} is unknown or occurs twice")
        if _BAD_VALUE.search(value):
            raise MalformedHeaders(f"the value of {name!r} has octets that no field may have")
        pseudo[name] = value
    for name in (b":method", b":scheme", b":path"):
        if not pseudo.get(name):
            raise MalformedHeaders(f"the pseudo-field {name!r} is missing or empty")
    return pseudo


def _check_fields(fields: tuple[Field, ...]) -> None:
    for name, value in fields:
        if not _NAME.fullmatch(name):
            raise MalformedHeaders(f"{name!r} is no field name here (lower case, pseudo-fields first)")
        if name in _CONNECTION_FIELDS:
            raise MalformedHeaders(f"the field {name!r} belongs to HTTP/1.1 connections")
        if name == b"te" and value != b"trailers":
            raise MalformedHeaders("the only value of `te` is `trailers`")
        if _BAD_VALUE.search(value):
            raise MalformedHeaders(f"the value of {name!r} has octets that no field may have")


def _content_length(fields: tuple[Field, ...]) -> int | None:
    values = {value for name, value in fields if name == b"content-length"}
    if not values:
        return None
    value = values.pop()
    if values or not value.isdigit() or len(value) > 19:
        raise MalformedHeaders("`content-length` is no number, or there are two")
    return int(value)

"""The head of an HTTP/2 request in the terms of the HTTP server, and what its server does not take."""

from __future__ import annotations

import re
from typing import Final

from trilith.core.header_fields import HOST, TOKEN
from trilith.wire.http1 import HttpLimits, Refusal
from trilith.wire.http1 import refusal as refusals
from trilith.wire.http2 import Field, Http2Limits, RequestHead

_MAX_REQUEST_ID_BYTES: Final = 128
_MAX_METHOD_BYTES: Final = 32
_PATH: Final = re.compile(rb"/[!-\"$-~]*")  # visible characters, and no #


def header_list(head: RequestHead) -> list[Field]:
    """The fields as HTTP/1.1 would have brought them: `host` first, and the pieces of `cookie` in one."""
    fields: list[Field] = [(b"host", head.authority)] if head.authority else []
    cookies = [value for name, value in head.fields if name == b"cookie"]
    fields += [field for field in head.fields if field[0] not in (b"host", b"cookie")]
    if cookies:
        fields.append((b"cookie", b"; ".join(cookies)))  # RFC 9113 section 8.2.3
    return fields


def given_request_id(head: RequestHead) -> str:
    """The client's `x-request-id` when it sent a usable one, else ""."""
    given = head.field(b"x-request-id") or b""
    usable = given.isascii() and len(given) <= _MAX_REQUEST_ID_BYTES and given.decode("ascii").isprintable()
    return given.decode("ascii") if usable else ""


def http2_limits(limits: HttpLimits) -> Http2Limits:
    """The bounds of an HTTP server in the terms of HTTP/2. A body that is awaited whole fits a stream's window."""
    return Http2Limits(
        max_concurrent_streams=limits.max_concurrent_streams,
        stream_window_bytes=max(limits.early_start_bytes, limits.read_ahead_bytes),
        max_header_list_bytes=limits.max_head_bytes,
    )


def violation(head: RequestHead, limits: HttpLimits) -> Refusal | None:
    """Why a request is refused by its head alone, or None."""
    if len(head.method) > _MAX_METHOD_BYTES or not TOKEN.fullmatch(head.method):
        return refusals.METHOD
    if head.method == b"CONNECT":
        return refusals.UPGRADE
    if len(head.path) > limits.max_url_bytes:
        return refusals.URL_TOO_LONG
    if not _PATH.fullmatch(head.path) and (head.path != b"*" or head.method != b"OPTIONS"):
        return refusals.MALFORMED.because("the path must begin with / and have visible characters only, and no #")
    if not head.authority:
        return refusals.HOST
    if not HOST.fullmatch(head.authority):
        return refusals.HOST_VALUE
    if len(head.fields) > limits.max_headers:
        return refusals.HEAD_TOO_LARGE
    expects = head.field(b"expect")
    if expects is not None and expects.lower() != b"100-continue":
        return refusals.EXPECTATION
    length = head.content_length
    if length is not None and length > limits.max_body_bytes:
        return refusals.BODY_TOO_LARGE.because(f"{length} bytes are more than {limits.max_body_bytes}")
    return None

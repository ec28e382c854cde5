"""What the front reads of a request's headers. Pure.

Rule: clients send the same headers again and again, so what was read of the last few is kept, by the headers
themselves. A server's limit of one request's headers bounds that memory.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import msgspec

from trilith.core.timeline import TIMELINE_HEADER
from trilith.errors import InvalidInput, UnsupportedMediaType
from trilith.wire.calls import NATIVE_CONTENT_TYPE, pack_headers

_TIMEOUT: Final = "trilith-timeout-ms"
_ENCODING: Final = "content-encoding"
_TRACE: Final = TIMELINE_HEADER.decode()
_GRPC: Final = "application/grpc"
_NOT_FORWARDED: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"host", b"expect", b"te"})
_KEPT: Final = 128


class CallHeaders(msgspec.Struct, frozen=True, gc=False):
    """The headers of a call.

    Attributes:
        content_type: of the body; "" when the client did not say.
        forwarded: what the service may read, as msgpack.
        timeout_s: the time limit that the caller asked for; infinity when it asked for none.
        trace: whether the caller wants its timeline.
        accept: the content types that it would take, "" for any.
    """

    content_type: str
    forwarded: msgspec.Raw
    timeout_s: float
    trace: bool
    accept: str


@lru_cache(maxsize=_KEPT)
def read_headers(headers: tuple[tuple[bytes, bytes], ...]) -> CallHeaders:
    """The headers of one request; names in lower case.

    Raises:
        InvalidInput: the time limit is none.
        UnsupportedMediaType: the body is compressed, which no service reads, or in the encoding of calls between
            services, which is not checked as strictly.
    """
    forwarded: dict[str, str] = {}
    first: dict[str, str] = {}
    for raw_name, raw_value in headers:
        if raw_name not in _NOT_FORWARDED:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            forwarded[name] = value
            first.setdefault(name, value)
            if name == _ENCODING and not _is_plain(value):
                raise UnsupportedMediaType(
                    f"content-encoding {value[:40]!r} is not read here; send the body as it is, without that header"
                )
    content_type = first.get("content-type", "").lower()
    if content_type.startswith(NATIVE_CONTENT_TYPE):
        raise UnsupportedMediaType(f"{NATIVE_CONTENT_TYPE} is spoken between services only; send JSON")
    if content_type.startswith(_GRPC):
        raise UnsupportedMediaType(f"{content_type[:40]} is spoken at the gRPC port; send JSON here")
    timeout = first.get(_TIMEOUT)
    return CallHeaders(
        content_type=first.get("content-type", ""),
        forwarded=pack_headers(forwarded),
        timeout_s=math.inf if timeout is None else _timeout_s(timeout),
        trace=first.get(_TRACE) == "1",
        accept=forwarded.get("accept", ""),
    )


@lru_cache(maxsize=_KEPT)
def read_exchange_headers(headers: tuple[tuple[bytes, bytes], ...]) -> CallHeaders:
    """The headers of a request that goes on as it came: its content is nothing to us.

    Raises:
        InvalidInput: the time limit is none.
    """
    forwarded: dict[str, str] = {}
    for raw_name, raw_value in headers:
        if raw_name not in _NOT_FORWARDED:
            forwarded[raw_name.decode("latin-1")] = raw_value.decode("latin-1")
    timeout = forwarded.get(_TIMEOUT)
    return CallHeaders(
        content_type=forwarded.get("content-type", ""),
        forwarded=pack_headers(forwarded),
        timeout_s=math.inf if timeout is None else _timeout_s(timeout),
        trace=forwarded.get(_TRACE) == "1",
        accept="",
    )


def _is_plain(encodings: str) -> bool:
    return all(one.strip().lower() in ("", "identity") for one in encodings.split(","))


def _timeout_s(text: str) -> float:
    try:
        timeout_s = float(text if "_" not in text else "") / 1e3  # Python reads 1_0 as 10
    except ValueError:
        timeout_s = -1.0
    if not timeout_s > 0:
        raise InvalidInput(f"trilith-timeout-ms must be a number of milliseconds above 0, got {text!r}")
    return timeout_s

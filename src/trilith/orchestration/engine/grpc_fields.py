"""Metadata of gRPC calls: what a service may read of it, and what of an answer's head becomes such. Pure.

Rule: clients send the same metadata again and again, and methods the same headers: what was read of the last few is
kept. A server's limit of one call's metadata bounds that memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from trilith.core.timeline import TIMELINE_HEADER
from trilith.wire.calls import ResultMeta, pack_headers, unpack_result

Fields = tuple[tuple[bytes, bytes], ...]

_NOT_FORWARDED: Final = frozenset({b"content-type", b"te", b"content-length"})
_HTTP_ALONE: Final = frozenset({"set-cookie", "cache-control", "location", "content-disposition"})
_KEPT: Final = 128
_KNOWN_BYTES: Final = 80


class CallMetadata(NamedTuple):
    """What a service may read of a call's metadata, packed; whether the caller wants its timeline."""

    forwarded: msgspec.Raw
    trace: bool


@lru_cache(maxsize=_KEPT)
def read_metadata(fields: Fields) -> CallMetadata:
    """Reads a call's metadata. Binary values stay the base64 text that they come as."""
    forwarded = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in fields
        if name not in _NOT_FORWARDED and not name.startswith(b"grpc-")
    }
    return CallMetadata(pack_headers(forwarded), (TIMELINE_HEADER, b"1") in fields)


def answer_fields(result: ResultMeta) -> Fields:
    """The headers that a method set, but for those that only HTTP has."""
    return tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in result.headers
        if name.lower() not in _HTTP_ALONE
    )


def fields_of(meta: bytes) -> Fields:
    """The same of an answer's envelope."""
    return _known(meta) if len(meta) <= _KNOWN_BYTES else answer_fields(unpack_result(meta))


@lru_cache(maxsize=_KEPT)
def _known(meta: bytes) -> Fields:
    return answer_fields(unpack_result(meta))

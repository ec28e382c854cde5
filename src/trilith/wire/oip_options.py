"""How the protocol's fronts are to behave, as frozen values that the command line makes."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from trilith.errors import InvalidConfig
from trilith.wire.grpc_compression import GrpcCompression
from trilith.wire.platforms import PlatformRoutes

GROUPS: Final = (
    "health",
    "metadata",
    "inference",
    "shared-memory",
    "model-config",
    "model-repository",
    "statistics",
    "trace",
    "logging",
)
"""The groups of endpoints that may be restricted."""

CompressionLevel = Literal["none", "low", "medium", "high"]
"""Triton's words; see `infer_compressions`."""

_ZLIB_LEVELS: Final = {"low": 1, "medium": 6, "high": 9}
_CASE_MATTERS: Final = "(?-i)"


class Restriction(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints that take only requests with a certain header.

    Attributes:
        groups: names out of `GROUPS`.
        header: the header's name, in lower case.
        value: the value that it must have.
    """

    groups: tuple[str, ...]
    header: str
    value: str


class GrpcConnections(msgspec.Struct, frozen=True, kw_only=True):
    """How connections of gRPC are kept alive, and how long.

    Attributes:
        keepalive_interval_s: of silence, until the client is asked by a PING whether it is there.
        keepalive_timeout_s: for the answer, until the connection is cut.
        min_ping_interval_s: between two PINGs of a client; one that comes earlier is a strike.
        max_ping_strikes: a client with more of them is sent away; 0 for any number.
        max_age_s: until a connection is drained, so that clients spread anew; None for never.
        max_age_grace_s: after that, until the calls that are left are ended.
    """

    keepalive_interval_s: float = 60.0
    keepalive_timeout_s: float = 20.0
    min_ping_interval_s: float = 10.0
    max_ping_strikes: int = 20
    max_age_s: float | None = None
    max_age_grace_s: float = 30.0


class ProtocolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the Open Inference Protocol's fronts.

    Attributes:
        server_name: what the metadata calls the server; "" for the usual name.
        compat: answer as Triton does also where its answer is the worse one.
        max_body_bytes: the most bytes that a compressed body may become.
        http_header_forward_pattern: request headers that match become parameters of the request; "" for none.
        grpc_header_forward_pattern: the same for the metadata of gRPC.
        http_restricted: restrictions of HTTP.
        grpc_restricted: restrictions of gRPC, whose headers begin with `triton-grpc-protocol-`.
        platforms: clouds that call by paths of their own.
        grpc_connections: how those of gRPC are kept alive.
        grpc_compression: how much work the compression of answers to `ModelInfer` may be, for clients that accept it.
    """

    server_name: str = ""
    compat: bool = False
    max_body_bytes: int = 64 << 20
    http_header_forward_pattern: str = ""
    grpc_header_forward_pattern: str = ""
    http_restricted: tuple[Restriction, ...] = ()
    grpc_restricted: tuple[Restriction, ...] = ()
    platforms: tuple[PlatformRoutes, ...] = ()
    grpc_connections: GrpcConnections = GrpcConnections()
    grpc_compression: CompressionLevel = "none"


def parse_restriction(text: str, option: str) -> Restriction:
    """Reads `GROUP[,GROUP...]:HEADER=VALUE`, as Triton's options of that kind.

    Raises:
        InvalidConfig: it is not of that form, or a group is unknown; the message begins with `option`.
    """
    groups_text, colon, rest = text.partition(":")
    header, equals, value = rest.partition("=")
    groups = tuple(group.strip() for group in groups_text.split(","))
    if not (colon and equals and header.strip() and value):
        raise InvalidConfig(f"{option}: expected GROUP[,GROUP...]:HEADER=VALUE, got {text!r:.100}")
    for group in groups:
        if group not in GROUPS:
            raise InvalidConfig(f"{option}: unknown group {group!r:.40}; the groups are {', '.join(GROUPS)}")
    return Restriction(groups=groups, header=header.strip().lower(), value=value)


def checked_restrictions(texts: tuple[str, ...], option: str) -> tuple[Restriction, ...]:
    """All restrictions of one protocol.

    Raises:
        InvalidConfig: one is malformed, or a group stands in two of them.
    """
    restrictions = tuple(parse_restriction(text, option) for text in texts)
    seen: set[str] = set()
    for restriction in restrictions:
        for group in restriction.groups:
            if group in seen:
                raise InvalidConfig(f"{option}: the group {group!r} is restricted twice; give it one header")
            seen.add(group)
    return restrictions


def header_pattern(text: str) -> re.Pattern[str]:
    """A regular expression for header names: case does not matter unless it begins with `(?-i)`, as for Triton."""
    case_matters = text.startswith(_CASE_MATTERS)
    return re.compile(text.removeprefix(_CASE_MATTERS), 0 if case_matters else re.IGNORECASE)


def checked_pattern(text: str, option: str) -> str:
    """A regular expression that can be compiled.

    Raises:
        InvalidConfig: it cannot.
    """
    try:
        header_pattern(text)
    except re.error as error:
        raise InvalidConfig(f"{option}: expected a regular expression, got {text!r:.100}: {error}") from None
    return text


def infer_compressions(level: CompressionLevel) -> tuple[GrpcCompression, ...]:
    """How answers are compressed, best first: the first that a client accepts is taken. Empty for `none`."""
    if level == "none":
        return ()
    zlib_level = _ZLIB_LEVELS[level]
    return (
        GrpcCompression(encoding="gzip", level=zlib_level),
        GrpcCompression(encoding="deflate", level=zlib_level),
    )

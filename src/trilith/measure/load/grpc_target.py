"""A gRPC method under load, and the exact octets that are sent there.

Rule: everything about a request is decided once, before the clock runs. A header list is encoded without a dynamic
table, so its octets are the same for every request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from trilith.core.timeline import TIMELINE_HEADER
from trilith.errors import InvalidConfig
from trilith.wire.grpc_messages import message_prefix
from trilith.wire.http2.header_encoder import EncodedHeaders

_SCHEMES: Final = ("grpc", "grpcs")
_METHOD: Final = re.compile(r"/[\w.]+/\w+", re.ASCII)
_NAME: Final = re.compile(r"[0-9a-z_.\-]+")
_OURS: Final = ("te", "content-type", "grpc-timeout", "grpc-encoding", "trilith-timeline")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcTarget:
    """A method of a gRPC server.

    Attributes:
        host: name or address to connect to.
        port: TCP port.
        tls: whether the connection is encrypted.
        path: `/package.Service/Method`; "" when only the server is known.
    """

    host: str
    port: int
    tls: bool
    path: str

    @classmethod
    def parse(cls, url: str) -> GrpcTarget:
        """Reads `grpc://host:port/package.Service/Method`, or `grpcs://` for TLS; the method may be left out.

        Raises:
            InvalidConfig: it is no such URL.
        """
        parts = urlsplit(url)
        path = parts.path.rstrip("/")
        try:
            port = parts.port
        except ValueError as error:
            raise InvalidConfig(f"URL {url!r}: the port must be a number from 0 to 65535") from error
        wrong = parts.scheme not in _SCHEMES or not parts.hostname or parts.query
        if wrong or not parts.hostname or (path and not _METHOD.fullmatch(path)):
            raise InvalidConfig(f"URL {url!r}: expected grpc://HOST:PORT/package.Service/Method")
        tls = parts.scheme == "grpcs"
        return cls(host=parts.hostname, port=port or (443 if tls else 80), tls=tls, path=path)

    @property
    def authority(self) -> str:
        """The value of `:authority`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The method as a URL."""
        return f"{'grpcs' if self.tls else 'grpc'}://{self.authority}{self.path}"

    @property
    def service(self) -> str:
        """`package.Service`, or ""."""
        return self.path.strip("/").partition("/")[0]

    @property
    def method(self) -> str:
        """`Method`, or ""."""
        return self.path.strip("/").partition("/")[2]


def is_grpc(url: str) -> bool:
    """Whether a URL is one of gRPC."""
    return url.partition("://")[0] in _SCHEMES


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcRequest:
    """One call, ready to be written.

    Attributes:
        head: its metadata.
        sampled: the same, asking for its timeline.
        message: with the five octets before it; several such for a stream of requests, one behind the other.
        data_head: length, type and flags of the DATA frame, where one is enough.
        size_bytes: of head and message.
    """

    head: EncodedHeaders
    sampled: EncodedHeaders
    message: bytes
    data_head: bytes
    size_bytes: int


def prepare_grpc(
    target: GrpcTarget, messages: Sequence[bytes], headers: Sequence[tuple[str, str]] = (), *, path: str = ""
) -> GrpcRequest:
    """Renders a call with one request message, or with several.

    Args:
        target: the method.
        messages: serialised.
        headers: metadata of the call.
        path: another method of the same server.

    Raises:
        InvalidConfig: a header cannot be sent as it is.
    """
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"https" if target.tls else b"http"),
        (b":path", (path or target.path).encode()),
        (b":authority", target.authority.encode()),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"trilith-bench"),
        *map(_field, headers),
    ]
    body = b"".join(message_prefix(len(message)) + message for message in messages)
    head = EncodedHeaders(fields)
    if not head.open_head:
        raise InvalidConfig(f"--header: {len(head.block)} bytes of metadata, and more than 16384 are not sent")
    return GrpcRequest(
        head=head,
        sampled=EncodedHeaders([*fields, (TIMELINE_HEADER, b"1")]),
        message=body,
        data_head=min(len(body), 0xFFFFFF).to_bytes(3, "big") + b"\0\1",
        size_bytes=len(head.block) + len(body),
    )


def _field(header: tuple[str, str]) -> tuple[bytes, bytes]:
    name, value = header[0].lower(), header[1]
    if not _NAME.fullmatch(name) or not value.isascii() or not value.isprintable() or name.startswith(":"):
        raise InvalidConfig(f"--header {name}:{value}: metadata has a name of a-z, 0-9, - . _ and printable ASCII")
    if name in _OURS:
        raise InvalidConfig(f"--header {name}: it is the generator's own and cannot be set")
    return name.encode(), value.encode()

"""Where the load goes, and the exact bytes that are sent there.

Rule: everything about a request is decided once, before the clock runs. The hot path only writes prepared bytes.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from trilith.core.timeline import TIMELINE_HEADER
from trilith.errors import InvalidConfig

_JOIN_BELOW_BYTES: Final = 64 << 10
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An HTTP endpoint.

    Attributes:
        host: name or address to connect to.
        port: TCP port.
        tls: whether the connection is encrypted.
        path: path and query, as sent.
    """

    host: str
    port: int
    tls: bool
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        """Reads `http://host:port/path?query`; `host:port/path` is taken as http.

        Raises:
            InvalidConfig: it is not an http or https URL with a host.
        """
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError as error:
            raise InvalidConfig(f"URL {url!r}: the port must be a number from 0 to 65535") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidConfig(f"URL {url!r}: expected http://HOST:PORT/PATH or https://HOST:PORT/PATH")
        tls = parts.scheme == "https"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if not path.isascii() or re.search(r"[\x00-\x20\x7f]", path):
            raise InvalidConfig(f"URL {url!r}: blanks and characters outside ASCII must be percent-encoded")
        return cls(host=parts.hostname, port=port or (443 if tls else 80), tls=tls, path=path)

    @property
    def authority(self) -> str:
        """The value of the `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The endpoint as a URL."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What one request carries: its bytes and their content type ("" for none)."""

    content: bytes
    content_type: str

    @classmethod
    def read(cls, file: Path, content_type: str = "") -> Body:
        """Reads a file. Without `content_type` its extension decides; an unknown one is `application/octet-stream`.

        Raises:
            InvalidConfig: the file cannot be read.
        """
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InvalidConfig(f"--data {file}: cannot be read: {error.strerror}") from error
        guessed = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        return cls(content=content, content_type=content_type or guessed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """One request as buffers, ready to be written.

    Attributes:
        plain: the request.
        sampled: the same, asking for its timeline.
        size_bytes: size of `plain`.
    """

    plain: tuple[bytes, ...]
    sampled: tuple[bytes, ...]
    size_bytes: int


def prepare(target: Target, method: str, body: Body | None, headers: Sequence[tuple[str, str]] = ()) -> PreparedRequest:
    """Renders a request. The caller's headers replace ours of the same name.

    Raises:
        InvalidConfig: method or headers cannot be sent as they are.
    """
    if not _TOKEN.fullmatch(method):
        raise InvalidConfig(f"--method {method!r}: expected a word like GET or POST")
    if method == "HEAD":
        raise InvalidConfig("--method HEAD: its answers announce a body that never comes; measure with GET instead")
    lines = {"host": target.authority, "accept": "*/*", "user-agent": "trilith-bench"}
    if body is not None or method in ("POST", "PUT", "PATCH"):
        lines["content-length"] = str(len(body.content) if body is not None else 0)
    if body is not None and body.content_type:
        lines["content-type"] = body.content_type
    for name, value in headers:
        _check_header(name, value)
        lines[name.lower()] = value
    head = f"{method} {target.path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    content = body.content if body is not None else b""
    plain = head.encode("latin-1") + b"\r\n"
    sampled = head.encode("latin-1") + TIMELINE_HEADER + b": 1\r\n\r\n"
    return PreparedRequest(
        plain=_buffers(plain, content), sampled=_buffers(sampled, content), size_bytes=len(plain) + len(content)
    )


def _buffers(head: bytes, content: bytes) -> tuple[bytes, ...]:
    # A large body is shared by both forms of the request instead of being copied into each.
    return (head + content,) if len(content) < _JOIN_BELOW_BYTES else (head, content)


def _check_header(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name) or re.search(r"[\x00\r\n]", value):
        raise InvalidConfig(f"--header {name}:{value}: expected NAME:VALUE on one line")
    if name.lower() in ("transfer-encoding", "connection", "content-length", "expect"):
        raise InvalidConfig(f"--header {name}: it is the generator's own and cannot be set")
    try:
        value.encode("latin-1")
    except UnicodeEncodeError as error:
        raise InvalidConfig(f"--header {name}: the value has characters that HTTP headers cannot carry") from error

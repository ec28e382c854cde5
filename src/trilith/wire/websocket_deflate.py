"""Compression of websocket messages (permessage-deflate, RFC 7692). Sans-I/O.

Rule 1: each message is compressed by itself (no context takeover, either way): a socket that is silent holds no window,
    which would be 300 kB each.
Rule 2: what is inflated is bounded while it is: a few octets cannot become more than the longest message.
Rule 3: messages that gain little are sent as they are, and so are long ones: compressing them would hold everybody else
    on this thread. The receiver is told by a bit of each message.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_NAME: Final = "permessage-deflate"
_LEAST_BITS: Final = 9  # zlib cannot write for a window of 8
_MOST_BITS: Final = 15
_LEVEL: Final = 1
_TAIL: Final = b"\x00\x00\xff\xff"
_WORTH_BYTES: Final = 1 << 10
_LONG_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class Deflate:
    """What a client and a server have agreed on.

    Attributes:
        window_bits: of what the server writes; what the client writes may have any window.
        said: whether the client asked for a window of its own choice, which is to be confirmed.
    """

    window_bits: int = _MOST_BITS
    said: bool = False

    @property
    def answer(self) -> str:
        """The value of `sec-websocket-extensions` in the answer to the handshake."""
        bits = f"; server_max_window_bits={self.window_bits}" if self.said else ""
        return f"{_NAME}; server_no_context_takeover; client_no_context_takeover{bits}"

    def compress(self, message: bytes) -> bytes | None:
        """The message, compressed; None: it goes as it is."""
        if not _WORTH_BYTES <= len(message) <= _LONG_BYTES:
            return None
        work = zlib.compressobj(_LEVEL, zlib.DEFLATED, -self.window_bits)
        made = (work.compress(message) + work.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_TAIL)
        return made if len(made) < len(message) else None


def agreed(offers: Sequence[str]) -> Deflate | None:
    """What becomes of the `sec-websocket-extensions` of a handshake: the first offer that can be met, or None."""
    for offer in ",".join(offers).split(","):
        name, *parameters = (part.strip() for part in offer.split(";"))
        if name.lower() == _NAME:
            found = _read_offer(parameters)
            if found is not None:
                return found
    return None


def _read_offer(parameters: Sequence[str]) -> Deflate | None:
    values: dict[str, str] = {}
    for parameter in parameters:
        name, equals, value = (part.strip() for part in parameter.partition("="))
        name = name.lower()
        value = value.removeprefix('"').removesuffix('"')
        if name in values or not _is_known(name, value if equals else None):
            return None
        values[name] = value
    bits = values.get("server_max_window_bits")
    if bits is None:
        return Deflate()
    return Deflate(int(bits), said=True) if int(bits) >= _LEAST_BITS else None


def _is_known(name: str, value: str | None) -> bool:
    if name in ("server_no_context_takeover", "client_no_context_takeover"):
        return value is None
    if name == "client_max_window_bits" and value is None:
        return True
    if name not in ("server_max_window_bits", "client_max_window_bits"):
        return False
    return value is not None and value.isascii() and value.isdigit() and len(value) <= 2 and 8 <= int(value) <= 15


class Inflation:
    """Inflates one message."""

    __slots__ = ("_work",)

    def __init__(self) -> None:
        self._work = zlib.decompressobj(-_MOST_BITS)

    def push(self, piece: bytes, most_bytes: int) -> bytes | None:
        """What the next piece becomes; None: that is more than `most_bytes`.

        Raises:
            ValueError: it is not what deflate writes.
        """
        work = self._work
        if work.eof:
            if piece.strip(b"\x00"):
                raise ValueError("there is more behind the last block of a compressed message")
            return b""
        try:
            made = work.decompress(piece, most_bytes + 1)
        except zlib.error as error:
            raise ValueError(f"a compressed message cannot be read: {error}") from error
        if len(made) > most_bytes:
            return None
        if work.unused_data.strip(b"\x00"):
            raise ValueError("there is more behind the last block of a compressed message")
        return made

    def finish(self, most_bytes: int) -> bytes | None:
        """What is left at the end of the message; None as for `push`.

        Raises:
            ValueError: it is not what deflate writes.
        """
        return b"" if self._work.eof else self.push(_TAIL, most_bytes)

"""Content codings of HTTP bodies: gzip and deflate, both ways. Sans-I/O.

Rule: what a compressed body becomes is bounded while it is decompressed, because a kilobyte can hold a gigabyte.
"""

from __future__ import annotations

import zlib
from typing import Final

from trilith.errors import InvalidInput, PayloadTooLarge, UnsupportedMediaType

_GZIP: Final = 16 + zlib.MAX_WBITS
_WBITS: Final[dict[bytes, int]] = {b"gzip": _GZIP, b"deflate": zlib.MAX_WBITS}
_ALIASES: Final = {b"x-gzip": b"gzip"}
_LEVEL: Final = 1  # tensors compress badly, and at this level at least quickly


def content_coding(value: bytes | None) -> bytes | None:
    """What `Content-Encoding` says: `b"gzip"`, `b"deflate"`, or None for a body as it is.

    Raises:
        UnsupportedMediaType: another coding, or several.
    """
    coding = b"identity" if value is None else value.strip().lower()
    coding = _ALIASES.get(coding, coding)
    if coding in (b"identity", b""):
        return None
    if coding not in _WBITS:
        raise UnsupportedMediaType(
            f"Content-Encoding {coding.decode('latin-1')[:40]!r} is not read here; send gzip, deflate or neither"
        )
    return coding


def decompressed(body: bytes | memoryview, coding: bytes, max_bytes: int) -> bytes:
    """The body without its coding.

    Args:
        body: all of it.
        coding: `b"gzip"` or `b"deflate"`; a deflate without the header of zlib is read too, as browsers do.
        max_bytes: the most that it may become.

    Raises:
        PayloadTooLarge: it becomes more.
        InvalidInput: it is not of that coding, or cut off.
    """
    wbits = _WBITS[coding]
    if coding == b"deflate" and not _has_zlib_header(body):
        wbits = -zlib.MAX_WBITS
    parts: list[bytes] = []
    size, rest = 0, body
    while rest or not parts:
        stream = zlib.decompressobj(wbits)
        try:
            part = stream.decompress(rest, max_bytes - size + 1)
        except zlib.error as error:
            raise InvalidInput(f"the body is no {coding.decode()}: {error}") from None
        size += len(part)
        if size > max_bytes:
            raise PayloadTooLarge(
                f"the decompressed request exceeds the maximum allowed input size of {max_bytes} bytes. Use "
                "--http-max-input-size to increase the limit (here: --max-body-mb)"
            )
        if not stream.eof:
            raise InvalidInput(f"the body is cut off: its {coding.decode()} does not end")
        parts.append(part)
        rest = stream.unused_data
        if rest and wbits != _GZIP:  # gzip may consist of several members
            raise InvalidInput(f"{len(rest)} bytes follow the end of the body's {coding.decode()}")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def compressed(body: bytes, coding: bytes) -> bytes:
    """The body in a coding."""
    stream = zlib.compressobj(_LEVEL, wbits=_WBITS[coding])
    return stream.compress(body) + stream.flush()


def accepted_coding(value: bytes | None) -> bytes | None:
    """The coding of an answer, from `Accept-Encoding`: the one the client likes most, or None for none.

    What is malformed asks for nothing.
    """
    if value is None:
        return None
    best, best_weight = None, 0.0
    for entry in value.lower().split(b","):
        name, _, weight_text = entry.partition(b";")
        coding = _ALIASES.get(name.strip(), name.strip())
        weight = _weight(weight_text)
        if coding in _WBITS and weight > best_weight:
            best, best_weight = coding, weight
    return best


def _weight(text: bytes) -> float:
    name, _, number = text.strip().partition(b"=")
    if not name:
        return 1.0
    try:
        weight = float(number) if name.strip() == b"q" else 0.0
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def _has_zlib_header(body: bytes | memoryview) -> bool:
    """Whether two bytes say so (RFC 1950): the method is deflate, and they are a multiple of 31."""
    return len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0

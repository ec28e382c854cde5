"""Compressed messages (gRPC's compression.md): each message on its own, by gzip or by zlib's `deflate`.

Rule: what comes out of a message is counted while it comes out. A message may be small and claim to be anything.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final, Literal

from trilith.errors import InvalidConfig, InvalidInput, PayloadTooLarge

# The window bits of zlib: 15, and 16 on top for the gzip format.
_WINDOW_BITS: Final = {b"gzip": 31, b"deflate": 15}

ACCEPTED: Final = b"identity,deflate,gzip"
"""The value of `grpc-accept-encoding`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcCompression:
    """How answers are compressed for the clients that accept it.

    Attributes:
        encoding: the algorithm.
        level: 1, the fastest, to 9, the smallest.
        min_bytes: shorter messages are sent as they are.
    """

    encoding: Literal["gzip", "deflate"] = "gzip"
    level: int = 1
    min_bytes: int = 1024

    def __post_init__(self) -> None:
        if self.encoding.encode() not in _WINDOW_BITS:
            raise InvalidConfig(f"compression: expected gzip or deflate, got {self.encoding!r}")
        if not 1 <= self.level <= 9:
            raise InvalidConfig(f"compression level: expected 1 to 9, got {self.level}")

    @property
    def name(self) -> bytes:
        """The algorithm as it stands in `grpc-encoding`."""
        return self.encoding.encode()

    def compress(self, message: bytes) -> bytes:
        """The compressed form of a message."""
        compressor = zlib.compressobj(self.level, zlib.DEFLATED, _WINDOW_BITS[self.name])
        return compressor.compress(message) + compressor.flush()


def is_known(encoding: bytes) -> bool:
    """True for an encoding that `inflate` reads."""
    return encoding in _WINDOW_BITS


def inflate(octets: bytes | memoryview, encoding: bytes, *, max_bytes: int) -> bytes:
    """The message inside.

    Args:
        octets: the whole compressed message.
        encoding: `gzip` or `deflate`.
        max_bytes: of the message; no more than one byte above it is ever made.

    Raises:
        PayloadTooLarge: it is longer.
        InvalidInput: it is not what the encoding says, is cut off, or something follows it.
    """
    inflater = zlib.decompressobj(_WINDOW_BITS[encoding])
    name = encoding.decode()
    try:
        message = inflater.decompress(octets, max_bytes + 1)
    except zlib.error as error:
        raise InvalidInput(f"a message is not the {name} that its call declares: {error}") from error
    if len(message) > max_bytes:
        raise PayloadTooLarge(
            f"a message of {len(octets)} bytes inflates to more than the limit of {max_bytes} (--max-body-mb)"
        )
    if not inflater.eof:
        raise InvalidInput(f"a message ends in the middle of its {name} stream")
    if inflater.unused_data:
        raise InvalidInput(f"{len(inflater.unused_data)} bytes follow the {name} stream of a message")
    return message

"""Metadata of gRPC calls in header fields (gRPC's PROTOCOL-HTTP2.md, "Custom-Metadata").

Names that end in `-bin` hold any octets, in base64; all others hold printable ASCII. A name may occur several times.
Binary values of one name may also come joined by commas, and receivers must take padded and unpadded base64 alike.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final

from trilith.errors import InvalidInput, ServiceError
from trilith.wire.http2 import Field

_NAME: Final = re.compile(rb"[0-9a-z_.\-]+")
_VALUE: Final = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?|")
_RESERVED: Final = re.compile(rb"grpc-(?!status-details-bin$)|(?:content-type|te|content-length|user-agent)$")


def metadata_field(name: str, value: str | bytes) -> Field:
    """One field of metadata, ready to be sent.

    Args:
        name: lower case.
        value: bytes for a name that ends in `-bin`, text for any other.

    Raises:
        ServiceError: the name or the value cannot be sent.
    """
    field_name = name.encode("latin-1", "replace")
    if isinstance(value, bytes):
        if not name.endswith("-bin"):
            raise ServiceError(f"metadata {name!r}: bytes need a name that ends in -bin")
        found = (field_name, base64.b64encode(value).rstrip(b"="))
    else:
        if name.endswith("-bin"):
            raise ServiceError(f"metadata {name!r}: a name that ends in -bin needs bytes, got text")
        found = (field_name, value.encode("latin-1", "replace"))
    check_metadata((found,))
    return found


def check_metadata(fields: Iterable[Field]) -> None:
    """Refuses what no client would take.

    Raises:
        ServiceError: a name is malformed or belongs to gRPC itself, or a value is not printable ASCII.
    """
    for name, value in fields:
        if not _NAME.fullmatch(name):
            raise ServiceError(f"metadata {name!r}: expected a name of a-z, 0-9, _, - and .")
        if _RESERVED.match(name):
            raise ServiceError(f"metadata {name!r}: the name belongs to gRPC itself")
        if not _VALUE.fullmatch(value):
            raise ServiceError(
                f"metadata {name!r}: expected printable ASCII without blanks at its ends, got {value[:50]!r}: "
                "send other octets under a name that ends in -bin"
            )


def binary_values(fields: Iterable[Field], name: bytes) -> list[bytes]:
    """All values of a binary name, in order.

    Args:
        fields: as they came.
        name: lower case, ending in `-bin`.

    Raises:
        InvalidInput: a value is no base64.
    """
    values = []
    for candidate, joined in fields:
        if candidate != name:
            continue
        for value in joined.split(b","):
            stripped = value.strip().rstrip(b"=")
            try:
                values.append(base64.b64decode(stripped + b"=" * (-len(stripped) % 4), validate=True))
            except binascii.Error as error:
                shown = name.decode("latin-1")
                raise InvalidInput(f"metadata {shown}: a value is no base64: {error}") from error
    return values

"""An answer of several parts, as `multipart/form-data`.

Rule 1: form-data, because each part has a name, and because a browser reads it: `(await fetch(...)).formData()`.
Rule 2: a boundary is random: what a part holds may come from the caller.
Rule 3: a list of images or files is several parts of one name, as it is in a request.
"""

from __future__ import annotations

import mimetypes
import secrets
from collections.abc import Callable
from typing import Any, Final

from trilith.service.codecs import media
from trilith.service.codecs.native import Buffer
from trilith.service.composites import Composite
from trilith.service.kinds import Kind, ValueType

Write = Callable[[ValueType, Any], tuple[str, list[Buffer]]]
"""The content type and body of one value of a type."""

_WRITTEN: Final = {'"': "%22", "\r": "%0D", "\n": "%0A", "\\": "%5C"}
"""As browsers write names (HTML, "multipart form data"); and the backslash, of which parsers think differently."""

_ENDINGS: Final = {
    media.NPY: ".npy",
    media.PARQUET: ".parquet",
    media.ARROW: ".arrows",
    media.CSV: ".csv",
    media.BINARY: "",
}


def encode_parts(composite: Composite, value: Any, write: Write) -> tuple[str, list[Buffer]]:
    """The content type, with its boundary, and the body.

    Raises:
        TypeError: a part cannot be written.
    """
    boundary = secrets.token_hex(16)
    body = bytearray()
    for name, one, part in composite.parts(value):
        for single in part if one.many and part is not None else [part]:
            try:
                content_type, buffers = write(one, single)
            except TypeError as error:
                raise TypeError(f"`{name}`: {error}") from error
            body += f"--{boundary}\r\n{_disposition(name, one, single, content_type)}\r\n".encode()
            body += f"content-type: {content_type}\r\n\r\n".encode()
            for buffer in buffers:
                body += buffer
            body += b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    return f"{media.FORM}; boundary={boundary}", [bytes(body)]


def _disposition(name: str, one: ValueType, value: Any, content_type: str) -> str:
    """A part with a file name is a file for a browser; one without is text."""
    head = f'content-disposition: form-data; name="{_quoted(name)}"'
    if one.kind is Kind.JSON or value is None:
        return head
    if one.kind is Kind.FILE:
        return f'{head}; filename="{_quoted(value.name)}"'
    ending = _ENDINGS.get(content_type)
    if ending is None:
        ending = mimetypes.guess_extension(content_type) or ""
    return f'{head}; filename="{_quoted(name)}{ending}"'


def unquoted(name: str) -> str:
    """The inverse of what is done to a name in an answer."""
    for one, written in _WRITTEN.items():
        name = name.replace(written, one)
    return name


def _quoted(name: str) -> str:
    for one, written in _WRITTEN.items():
        name = name.replace(one, written)
    return name

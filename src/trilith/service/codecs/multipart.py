"""multipart/form-data bodies: the fields and files of a form.

The parser is python-multipart's, which bounds the headers of a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from trilith.errors import InvalidInput, PayloadTooLarge

_MAX_PARTS: Final = 1000
_MAX_BOUNDARY: Final = 200  # RFC 2046 says 70


@dataclass(slots=True, kw_only=True)
class Part:
    """One part of a form.

    Attributes:
        name: the field's name.
        filename: as the client sent it: never a path to be trusted. None for a field that is no file.
        content_type: "" when the client sent none.
        body: the part's bytes.
    """

    name: str
    filename: str | None
    content_type: str
    body: bytes


@dataclass(slots=True)
class _Reading:
    """The callbacks of the parser, and what they have gathered."""

    parts: list[Part] = field(default_factory=list)
    ended: bool = False
    headers: dict[bytes, bytes] = field(default_factory=dict)
    name: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)
    body: bytearray = field(default_factory=bytearray)

    def on_part_begin(self) -> None:
        if len(self.parts) >= _MAX_PARTS:
            raise PayloadTooLarge(
                f"a form may have at most {_MAX_PARTS} parts, and this one has more; send lists as JSON"
            )
        self.headers, self.body = {}, bytearray()
        self.name, self.value = bytearray(), bytearray()

    def on_header_field(self, raw: bytes, start: int, end: int) -> None:
        self.name += raw[start:end]

    def on_header_value(self, raw: bytes, start: int, end: int) -> None:
        self.value += raw[start:end]

    def on_header_end(self) -> None:
        self.headers[bytes(self.name).lower()] = bytes(self.value)
        self.name, self.value = bytearray(), bytearray()

    def on_part_data(self, raw: bytes, start: int, end: int) -> None:
        self.body += memoryview(raw)[start:end]

    def on_part_end(self) -> None:
        disposition, options = parse_options_header(self.headers.get(b"content-disposition", b""))
        name = options.get(b"name")
        if disposition != b"form-data" or name is None:
            raise InvalidInput("a part of the form has no `Content-Disposition: form-data; name=...`")
        filename = options.get(b"filename")
        self.parts.append(
            Part(
                name=name.decode("utf-8", "replace"),
                filename=None if filename is None else filename.decode("utf-8", "replace"),
                content_type=self.headers.get(b"content-type", b"").decode("latin-1").strip(),
                body=bytes(self.body),
            )
        )

    def on_end(self) -> None:
        self.ended = True


def parse_form(content_type: str, body: bytes | bytearray | memoryview) -> list[Part]:
    """The parts of a form, in order.

    Args:
        content_type: the whole header, with its boundary.
        body: the whole body.

    Raises:
        InvalidInput: there is no boundary; the form is malformed or cut short; a part's headers are too long.
        PayloadTooLarge: it has too many parts.
    """
    _, options = parse_options_header(content_type.encode("latin-1", "replace"))
    boundary = options.get(b"boundary")
    if not boundary:
        raise InvalidInput("Content-Type: multipart/form-data has no boundary; let the HTTP library write that header")
    if len(boundary) > _MAX_BOUNDARY:
        raise InvalidInput(f"a form's boundary has at most {_MAX_BOUNDARY} characters, got {len(boundary)}")
    reading = _Reading()
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": reading.on_part_begin,
            "on_part_data": reading.on_part_data,
            "on_part_end": reading.on_part_end,
            "on_header_field": reading.on_header_field,
            "on_header_value": reading.on_header_value,
            "on_header_end": reading.on_header_end,
            "on_end": reading.on_end,
        },
    )
    try:
        parser.write(body if isinstance(body, bytes) else bytes(body))
        parser.finalize()
    except MultipartParseError as error:
        raise InvalidInput(f"the form is malformed: {error}") from error
    if not reading.ended:
        raise InvalidInput(f"the form is cut short: {len(body)} bytes, and no closing boundary")
    return reading.parts

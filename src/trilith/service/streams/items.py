"""Items of a stream to bytes and back: the codecs of single values, item by item.

Rule 1: an item that goes out is looked at as a result is, one that comes in as an argument is.
Rule 2: an item that cannot be read fails when its turn comes, in the method that asked for it: what came before it was
    good.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from trilith.errors import InvalidInput
from trilith.service.codecs import media, native
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.request import Arguments, RequestDecoder
from trilith.service.codecs.restore import restorer
from trilith.service.codecs.result import ResultEncoder
from trilith.service.signature import MethodSignature, ParameterType, ValueType
from trilith.service.streams.formats import LINES, payload_type, streamed_types
from trilith.wire.calls import MESSAGE_CONTENT_TYPE, NATIVE_CONTENT_TYPE, CallMeta
from trilith.wire.json_lines import LineSplitter
from trilith.wire.stream_formats import TEXT

Write = Callable[[Any], Sequence[Buffer]]
"""From an item to its buffers. Raises TypeError when it is not of the declared type."""

RawItem = tuple[str, Sequence[Buffer]]
"""An item as it came: its content type and its buffers."""


class MessageReader(Protocol):
    """Reads a message of gRPC."""

    def decode(self, body: Buffer, folder: RequestFolder | None) -> Arguments:
        """What is in it."""
        ...


class ItemEncoder:
    """Writes the items of one method."""

    def __init__(self, result: ValueType, encoder: ResultEncoder, where: str) -> None:
        self._encoder = encoder
        self._where = where
        self._offered = streamed_types(result)

    def writer(self, meta: CallMeta) -> Write:
        """How the items of a call are written.

        Raises:
            NotAcceptable: its caller accepts nothing that is offered.
        """
        encoder = self._encoder
        if meta.content_type == NATIVE_CONTENT_TYPE:
            return encoder.encode_native
        kind = payload_type((meta.headers or {}).get("accept"), self._offered, self._where)
        if kind == TEXT:
            return self._text
        if kind == media.JSON and encoder.plain:
            plain = encoder.encode_plain
            return lambda value: (plain(value),)
        return lambda value: encoder.encode(value, kind)[1]

    def _text(self, value: Any) -> Sequence[Buffer]:
        if not isinstance(value, str):
            raise TypeError(f"{self._where} yielded {type(value).__name__} and declares str")
        return (value.encode(errors="replace"),)


class ItemDecoder:
    """Reads the items that one method takes."""

    def __init__(self, taken: ParameterType, where: str) -> None:
        self._where = f"{where}: {taken.name}"
        self._value = taken.value
        alone = ParameterType(name=taken.name, value=taken.value)
        signature = MethodSignature(
            parameters=(alone,),
            result=taken.value,
            root=True,
            asynchronous=False,
            inspected=inspect.Signature(),
        )
        self._decoder = RequestDecoder(signature, self._where)
        self._restore = restorer(taken.value, self._where)
        self.messages: MessageReader | None = None
        """Reads those that come over gRPC; set before the first of them."""

    def prepare(self) -> None:
        """Builds the codecs.

        Raises:
            InvalidConfig: a type cannot go over the wire.
        """
        self._decoder.prepare()

    def decode(self, raw: RawItem, number: int) -> Any:
        """An item.

        Args:
            raw: as it came.
            number: from 1, for messages.

        Raises:
            InvalidInput: it is not what the signature says.
        """
        content_type, buffers = raw
        try:
            if content_type == NATIVE_CONTENT_TYPE:
                return self._restore(native.unpack(buffers), None)
            body = buffers[0] if len(buffers) == 1 else b"".join(buffers)
            if content_type == MESSAGE_CONTENT_TYPE and self.messages is not None:
                return self.messages.decode(body, None).args[0]
            [value] = self._decoder.decode(content_type, (body,)).args
        except InvalidInput as error:
            message = error.message.replace(": the body is not JSON: ", ": it is not JSON: ")
            raise type(error)(f"item {number}: {message}") from error
        return value


class Feed:
    """The items of one call, cut out of what comes."""

    def __init__(self, content_type: str) -> None:
        self._content_type = content_type
        self._lines = LineSplitter() if media.media_type(content_type) in LINES else None

    def push(self, meta: bytes, buffers: Sequence[Buffer]) -> list[RawItem]:
        """What came, as items; none while the first of them is not whole.

        Raises:
            PayloadTooLarge: a line is too long.
        """
        if meta:
            return [(meta.decode("latin-1"), buffers)]
        if self._lines is None:
            return [(self._content_type, buffers)]
        return [_line(line) for buffer in buffers for line in self._lines.push(bytes(buffer))]

    def finish(self) -> list[RawItem]:
        """The end came: what is left."""
        return [] if self._lines is None else [_line(line) for line in self._lines.finish()]


def _line(line: bytes) -> RawItem:
    return media.JSON, (line,)

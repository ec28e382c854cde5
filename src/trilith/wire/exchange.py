"""A raw exchange between the gateway and a replica: HTTP as it came, for what answers HTTP by itself.

It is a call with items (`FLAG_STREAM`) whose envelope has `EXCHANGE_CONTENT_TYPE`.

    the call's buffers          an `ExchangeHead`, and the body where it was here whole
    items to the replica        pieces of the body; of a websocket its messages
    items of the replica        the first has `pack_answer(...)` as its meta; pieces of the body, or messages
    the call's result           ends them. Without an item before it it is the whole answer: head (`ResultMeta`), body

Of a websocket the first item of the replica has the status 101 and nothing else; of all others, either way, the meta is
the kind of the message (`TEXT`, `BINARY`), or `pack_close(...)`.

Rule: headers go through as octets, whatever they hold. As text they are latin-1, which has one character for each.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from typing import Final

import msgspec

from trilith.errors import InvalidInput
from trilith.wire.calls import ResultMeta, pack_meta, unpack_result

EXCHANGE_CONTENT_TYPE: Final = "application/x-trilith-exchange"

ALL: Final = "*"
"""The name by which a call asks for all of a service, by its path, where middleware stands before it."""

SWITCHING: Final = 101
"""The status of an answer that makes a websocket of a request."""

TEXT: Final = b"t"
BINARY: Final = b"b"
_CLOSE: Final = b"c"

Address = tuple[str, int]
Field = tuple[bytes, bytes]


class ExchangeHead(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """The head of a request.

    Attributes:
        method: `GET`, `POST` ...
        raw_path: the target before `?` as it came, mount included.
        root_path: where what answers is mounted, as text: "/ui"; "" for the root.
        query: the target after `?` as it came.
        headers: in the order in which they came, names in lower case.
        client: address and port of the client; None for a UNIX socket.
        server: those of the server's end.
        scheme: `http` or `https`.
        http_version: `1.0`, `1.1` or `2`.
        whole: the body is in the buffer beside this head; else it comes as items.
        websocket: the client wants a websocket.
        subprotocols: that it offers for it.
    """

    method: str
    raw_path: bytes
    root_path: str
    query: bytes
    headers: tuple[Field, ...]
    client: Address | None
    server: Address | None
    scheme: str
    http_version: str
    whole: bool
    websocket: bool = False
    subprotocols: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The path, mount included, with its percent-encoded octets decoded as UTF-8."""
        return urllib.parse.unquote_to_bytes(self.raw_path).decode("utf-8", "replace")

    @property
    def raw_path_below(self) -> bytes:
        """The path below the mount as it came; "/" for the mount itself."""
        return self.raw_path[len(self.root_path) :] or b"/"


class _Close(msgspec.Struct, array_like=True, frozen=True):
    code: int
    reason: str = ""


_encoder: Final = msgspec.msgpack.Encoder()
_heads: Final = msgspec.msgpack.Decoder(ExchangeHead)
_closes: Final = msgspec.msgpack.Decoder(_Close)


def pack_head(head: ExchangeHead) -> bytes:
    """The head as it travels."""
    return _encoder.encode(head)


def unpack_head(raw: bytes | bytearray | memoryview) -> ExchangeHead:
    """The inverse of `pack_head`.

    Raises:
        InvalidInput: it is no head.
    """
    try:
        return _heads.decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the head of an exchange could not be read: {error}") from error


def answer_meta(status: int, headers: Iterable[Field], timeline: object = None) -> ResultMeta:
    """The head of an answer: what is sent of it is for who writes it to say."""
    pairs = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    return ResultMeta(EXCHANGE_CONTENT_TYPE, timeline, status, pairs)


def pack_answer(status: int, headers: Iterable[Field]) -> bytes:
    """The head of an answer as the meta of its first item."""
    return pack_meta(answer_meta(status, headers))


def unpack_answer(raw: bytes | memoryview) -> tuple[int, list[Field]] | None:
    """The inverse of `pack_answer`, and of a result that is a whole answer; None: it is the end of one that was sent.

    Raises:
        InvalidInput: it is neither.
    """
    result = unpack_result(raw)
    if result.content_type != EXCHANGE_CONTENT_TYPE:
        return None
    try:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in result.headers]
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the head of an answer has characters that no header has: {error}") from error
    return result.status, headers


def pack_close(code: int, reason: str) -> bytes:
    """The close of a websocket, as an item's meta."""
    return _CLOSE + _encoder.encode(_Close(code, reason))


def unpack_close(meta: bytes) -> tuple[int, str] | None:
    """Code and reason of a close; None: the item is a message.

    Raises:
        InvalidInput: it is neither.
    """
    if not meta.startswith(_CLOSE):
        return None
    try:
        close = _closes.decode(meta[len(_CLOSE) :])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the close of a websocket could not be read: {error}") from error
    return close.code, close.reason

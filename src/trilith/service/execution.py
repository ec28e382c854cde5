"""One method of one instance, ready to run: codecs built, kind of execution chosen.

Rule: here are the steps of one call and of one batch (decode, run, encode, stamp); `host.py` decides when, and answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilith.core.context import Context
from trilith.core.timeline import DECODED, ENCODED, INFER
from trilith.errors import Bug, NotFound
from trilith.service.batching import Item, columns, split_results
from trilith.service.call import MESSAGE_RESULT, PLAIN_RESULT, ServiceCall
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.media import BINARY, JSON
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.request import Arguments, RequestDecoder
from trilith.service.codecs.result import ResultEncoder
from trilith.service.signature import Kind
from trilith.service.spec import MethodSpec
from trilith.service.streams.items import ItemDecoder, ItemEncoder, Write
from trilith.wire.calls import MESSAGE_CONTENT_TYPE, NATIVE_CONTENT_TYPE, CallMeta, ResultMeta, pack_meta

if TYPE_CHECKING:
    from trilith.service.codecs.inference import InferenceCodec
    from trilith.service.proto.binding import BoundMethod
    from trilith.service.streams.call import StreamServiceCall

_LARGE_BYTES: Final = 64 * 1024
_METAS: Final = 32
_NOT_ASKED: Final = (NATIVE_CONTENT_TYPE, MESSAGE_CONTENT_TYPE)  # whose answers are of the same encoding
_JSON_LENGTH: Final = "inference-header-content-length"
_ANYTHING: Final = "*/*"
_QUICK_KINDS: Final = frozenset({Kind.JSON, Kind.BYTES})
_now: Final = time.monotonic
_END: Final = ResultMeta("")

Answer = tuple[ResultMeta, Sequence[Buffer]]


class ShortWay(NamedTuple):
    """The codecs of one content type where they are quick, and the envelope of such answers."""

    decode: Callable[[Buffer], Arguments]
    encode: Callable[[Any], bytes]
    result: ResultMeta


class HostedMethod:
    """A method with everything that is worked out before the first call."""

    def __init__(self, spec: MethodSpec, function: Callable[..., Any], *, uploads: Path | None = None) -> None:
        self.spec = spec
        self._uploads = uploads
        self.where = spec.where
        self.function = function
        self.asynchronous = spec.asynchronous
        self.batched = spec.options.batch is not None
        self.timeout_s = spec.timeout_s
        self._decoder = RequestDecoder(spec.signature, spec.where)
        self._encoder = ResultEncoder(spec.signature.result, spec.where)
        self.heavy_result = self._encoder.heavy
        # JSON's own types alone, and no thread.
        quick = self.asynchronous and not self.batched and self._decoder.plain and self._encoder.plain
        self._metas = {JSON: PLAIN_RESULT, MESSAGE_CONTENT_TYPE: MESSAGE_RESULT}
        plain = ShortWay(self._decoder.decode_plain, self._encoder.encode_plain, PLAIN_RESULT)
        self._short = {JSON: plain} if quick else {}
        self._messages: BoundMethod | None = None
        signature = spec.signature
        self.streams = signature.streams
        self.streaming = signature.streaming
        self.item_decoder = None if signature.taken is None else ItemDecoder(signature.taken, spec.where)
        self._items = ItemEncoder(signature.result, self._encoder, spec.where) if signature.streams else None
        self.ordinary = not (self.batched or self.streaming)
        self._check_accept = self._encoder.check_accept
        self._inference: InferenceCodec | None = None

    def prepare(self) -> None:
        """Builds the codecs.

        Raises:
            InvalidConfig: a type cannot go over the wire.
        """
        self._decoder.prepare()
        self._encoder.prepare()
        if self.spec.service.options.proto and self.spec.name in self.spec.service.grpc.methods:
            self._message_codec()
        if self.item_decoder is not None:
            self.item_decoder.prepare()
        signature = self.spec.signature
        if any(parameter.value.kind is Kind.ARRAY for parameter in signature.parameters):
            from trilith.service.codecs.inference import InferenceCodec, reads_messages

            self._inference = InferenceCodec(signature, self.where) if reads_messages(signature) else None

    def short_way(self, call: ServiceCall) -> ShortWay | None:
        """How a call can be answered in one step on the loop; None: it cannot, or more is asked for."""
        meta = call.meta
        way = self._short.get(meta.content_type)
        if way is None or meta.trace or meta.query:
            return None
        if way.result is PLAIN_RESULT:
            accept = meta.headers.get("accept") if meta.headers else None
            return way if accept is None or accept in (_ANYTHING, JSON) else None
        return way if len(call.buffers[0]) <= _LARGE_BYTES else None

    def heavy_body(self, call: ServiceCall) -> bool:
        """Whether decoding this body would hold up an event loop."""
        if self._decoder.unfolds:
            return True
        is_message = call.meta.content_type == MESSAGE_CONTENT_TYPE
        buffers = call.buffers
        size = len(buffers[0]) if len(buffers) == 1 else sum(len(buffer) for buffer in buffers)
        if size <= _LARGE_BYTES:
            return is_message and self._messages is None
        return is_message or self._decoder.heavy(call.meta.content_type)

    def decode(self, call: ServiceCall) -> Arguments:
        """The arguments of a call.

        Raises:
            InvalidInput: the body is not what the signature says.
            NotAcceptable: the caller takes none of the content types of the answer.
        """
        if (json_length := self._message_length(call)) is not None and self._inference is not None:
            arguments = self._inference.decode(call.buffers[0] if call.buffers else b"", json_length)
            call.context.timeline.mark(DECODED, _now())
            return arguments
        if not self.streams and call.meta.content_type not in _NOT_ASKED and call.meta.headers:
            self._check_accept(call.meta.headers.get("accept"))
        if self._decoder.files:
            call.folder = RequestFolder(self._uploads)
        if call.meta.content_type == MESSAGE_CONTENT_TYPE:
            reader = self._message_codec().reader
            if self.item_decoder is not None:  # each message is an item
                self.item_decoder.messages = reader
                arguments = Arguments((), {})
            else:
                arguments = reader.decode(call.buffers[0], call.folder)
        elif self.item_decoder is not None and call.meta.content_type != NATIVE_CONTENT_TYPE:
            arguments = self._decoder.decode_query(call.meta.query)  # the body is the items
        else:
            arguments = self._decoder.decode(
                call.meta.content_type, call.buffers, folder=call.folder, query=call.meta.query
            )
        call.context.timeline.mark(DECODED, _now())
        return arguments

    def _message_length(self, call: ServiceCall) -> str | None:
        """How long the JSON of a binary message of the Open Inference Protocol is; None: the body is none."""
        if self._inference is None or not call.meta.headers or call.meta.content_type in _NOT_ASKED:
            return None
        return call.meta.headers.get(_JSON_LENGTH)

    def encode(self, call: ServiceCall, value: Any) -> Answer:
        """The answer of a call.

        Raises:
            TypeError: the method returned something else than it declares.
        """
        buffers: Sequence[Buffer]
        if call.meta.content_type == NATIVE_CONTENT_TYPE:
            content_type, buffers = NATIVE_CONTENT_TYPE, self._encoder.encode_native(value)
        elif call.meta.content_type == MESSAGE_CONTENT_TYPE:
            checked = self._encoder.checked(value)
            content_type, buffers = MESSAGE_CONTENT_TYPE, (self._message_codec().writer.encode(checked),)
        elif self._inference is not None and self._message_length(call) is not None:
            body, json_length = self._inference.encode(self._encoder.checked(value))
            call.context.set_header(_JSON_LENGTH, str(json_length))
            content_type, buffers = BINARY, (body,)
        else:
            headers = call.meta.headers
            content_type, buffers = self._encoder.encode(value, headers.get("accept") if headers else None)
        context = call.context
        timeline = context.timeline
        timeline.mark(ENCODED, _now())
        if call.meta.trace or context.answer is not None:
            return answer_meta(content_type, context, trace=call.meta.trace), buffers
        meta = self._metas.get(content_type)
        if meta is None:
            meta = ResultMeta(content_type)
            if len(self._metas) < _METAS:  # a form has a boundary that never comes again
                self._metas[content_type] = meta
        return meta, buffers

    def _message_codec(self) -> BoundMethod:
        """How messages of gRPC are read and written; worked out at the first one."""
        if self._messages is None:
            self._messages = self.spec.service.grpc.methods.get(self.spec.name)
            if self._messages is not None:
                self._add_short_way(self._messages)
        if self._messages is None:
            raise NotFound(f"{self.where} is not offered over gRPC")
        return self._messages

    def _add_short_way(self, messages: BoundMethod) -> None:
        """For methods on the loop that neither files nor pictures nor arrays go through."""
        signature = self.spec.signature
        kinds = {value.kind for value in (signature.result, *(parameter.value for parameter in signature.parameters))}
        if not self.asynchronous or not self.ordinary or not kinds <= _QUICK_KINDS:
            return
        decode, encode, checked = messages.reader.decode, messages.writer.encode, self._encoder.checked
        self._short[MESSAGE_CONTENT_TYPE] = ShortWay(
            lambda body: decode(body, None), lambda value: encode(checked(value)), MESSAGE_RESULT
        )

    def invoke(self, arguments: Arguments, items: object) -> Any:
        """Calls a streaming method: its iterator, or the result or coroutine of one that only takes items."""
        taken = self.spec.signature.taken
        if taken is None:
            return self.function(*arguments.args, **arguments.kwargs)
        if self.spec.signature.inspected.parameters[taken.name].kind is Parameter.POSITIONAL_ONLY:
            return self.function(items)
        return self.function(*arguments.args, **arguments.kwargs, **{taken.name: items})

    def writer(self, meta: CallMeta) -> Write:
        """How the items of a call are written.

        Raises:
            NotAcceptable: its caller accepts nothing that is offered.
        """
        if self._items is None:
            raise Bug(f"{self.where} streams no items")
        if meta.content_type == MESSAGE_CONTENT_TYPE:
            encoder, messages = self._encoder, self._message_codec().writer
            return lambda value: (messages.encode(encoder.checked(value)),)
        return self._items.writer(meta)

    def ended(self, call: StreamServiceCall) -> Answer:
        """The answer that ends the items of a call."""
        call.stamp_items()
        self.ran((call,))
        if call.meta.trace or call.context.answer is not None:
            return answer_meta(self._end_type(call), call.context, trace=call.meta.trace), ()
        return _END, ()

    def first_meta(self, call: StreamServiceCall) -> bytes:
        """What the first item of a call has beside it: what the method said of the answer so far; b"" for nothing."""
        if call.context.answer is None or self._end_type(call) == NATIVE_CONTENT_TYPE:
            return b""
        return pack_meta(answer_meta("", call.context, trace=False))

    @staticmethod
    def _end_type(call: StreamServiceCall) -> str:
        return NATIVE_CONTENT_TYPE if call.meta.content_type == NATIVE_CONTENT_TYPE else ""

    def ran(self, calls: Sequence[ServiceCall]) -> None:
        """Stamps the end of the method itself."""
        now = _now()
        for call in calls:
            call.context.timeline.mark(INFER, now)

    def joined(self, items: Sequence[Item]) -> tuple[list[list[Any]], dict[str, list[Any]]]:
        """The arguments of a batch."""
        return columns(self.spec.signature, items)

    def split(self, results: object, count: int) -> list[Any]:
        """The single results of a batch.

        Raises:
            ServiceError: there is not one for each item.
        """
        return split_results(self.where, results, count)


def answer_meta(content_type: str, context: Context, *, trace: bool) -> ResultMeta:
    """The envelope of an answer of which the method has said something, or whose timeline is wanted."""
    timeline = context.timeline.to_builtins() if trace else None
    answer = context.answer
    if answer is None or content_type == NATIVE_CONTENT_TYPE:  # another service gets the value alone
        return ResultMeta(content_type, timeline)
    return ResultMeta(content_type, timeline, answer.status, answer.fields)

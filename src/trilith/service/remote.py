"""Calls to a service in another process: the encoding is here, the way there is the worker's."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Any, Final, Protocol

from trilith.core.context import Context
from trilith.core.timeline import ANSWERED, SENT, Timeline
from trilith.service.codecs import native
from trilith.service.codecs.native import Buffer
from trilith.service.codecs.result import ResultDecoder
from trilith.service.spec import ServiceSpec, no_method
from trilith.service.tracing import context as context_of_call
from trilith.service.tracing import tracing
from trilith.wire.calls import NATIVE_CONTENT_TYPE, CallMeta, ResultMeta

_FLOOR: Final = 3


class Send(Protocol):
    """Takes a call to wherever its service runs, and brings the answer back."""

    def __call__(
        self, meta: CallMeta, buffers: Sequence[Buffer], context: Context
    ) -> Awaitable[tuple[ResultMeta, Sequence[Buffer]]]:
        """The answer's envelope and buffers. Raises TrilithError when the call failed."""
        ...


class RemoteServiceCaller:
    """A `ServiceCaller` over any transport: packs arguments, restores the result by the method's annotation."""

    def __init__(self, spec: ServiceSpec, send: Send) -> None:
        self._spec = spec
        self._send = send
        self._decoders: dict[str, ResultDecoder] = {}

    async def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The method's result.

        Raises:
            TypeError: an argument is of a type that cannot be sent.
            TrilithError: the call failed, or the method raised.
        """
        decoder = self._decoders.get(method)
        if decoder is None:
            decoder = self._decoders[method] = self._make_decoder(method)
        context = context_of_call()
        trace = tracing.get()
        meta = CallMeta(
            self._spec.name,
            method,
            NATIVE_CONTENT_TYPE,
            context.request_id,
            None,
            trace,
            client=context.client,
            identity=context.identity,
        )
        buffers = native.pack_call(args, kwargs)
        child = context.timeline.child(f"call {self._spec.name}.{method}", _FLOOR)
        child.mark(SENT, time.monotonic())
        answer, results = await self._send(meta, buffers, context)
        child.mark(ANSWERED, time.monotonic())
        if answer.timeline is not None:
            child.adopt(Timeline.from_builtins(answer.timeline))
        return decoder.decode(results)

    def _make_decoder(self, method: str) -> ResultDecoder:
        spec = self._spec.methods.get(method)
        if spec is None:
            raise no_method(self._spec, method)
        return ResultDecoder(spec.signature, spec.where)

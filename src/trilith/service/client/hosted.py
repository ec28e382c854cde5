"""A service in this process, reached as a server is: bodies in, answers out, and no socket between.

Rule 1: it behaves as the served one does. Each service of the graph has a host of its own, calls between them go
through their encodings, and who has a lifecycle is entered and left.
Rule 2: the main thread runs the event loop while a call is made, so that `breakpoint()` and Ctrl-C work. Between the
items of a stream the loop rests.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
import urllib.parse
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import NotFound, TrilithError
from trilith.service.call import Outcome, ServiceCall
from trilith.service.client.heads import checked_headers
from trilith.service.client.retries import Answered, Refused
from trilith.service.codecs import media
from trilith.service.codecs.native import Buffer
from trilith.service.describe import describe, service_graph
from trilith.service.host import ServiceHost
from trilith.service.openapi import openapi_document
from trilith.service.remote import RemoteServiceCaller
from trilith.service.spec import ServiceSpec, spec_of
from trilith.service.streams.call import StreamServiceCall
from trilith.service.streams.formats import streamed_types
from trilith.service.streams.hosted_stream import HostedStream
from trilith.wire.calls import CallMeta, ResultMeta
from trilith.wire.stream_formats import SSE, event

if TYPE_CHECKING:
    from trilith.service.client.encoding import Body
    from trilith.service.client.patience import Patience
    from trilith.service.ports import ModelCaller, Placement

_FLOOR: Final = 2
_REQUEST_ID: Final = "call"

Hosts = dict[ServiceSpec, ServiceHost]


class HostedTransport:
    """What `SyncTransport` is for a server, for a service in this process. Used by one thread."""

    def __init__(
        self, service: object, *, model_roots: Sequence[Path] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        """Takes a decorated class or function, folders in which models are looked for first, and headers of all calls.

        Raises:
            InvalidConfig: it is no service, or cannot be served; HTTP does not allow a header.
        """
        self._root = spec_of(service)
        self._document = msgspec.json.encode(openapi_document(describe(service)))
        self._paths = {path: method.name for method in self._root.methods.values() for path in method.routes}
        self._model_roots = tuple(model_roots)
        self._headers = checked_headers(headers or {})
        self._hosts: Hosts = {}
        self._feeding: set[asyncio.Task[None]] = set()
        self._runner = asyncio.Runner()
        self.url = self._root.name

    def get(self, path: str) -> Answered:
        """The OpenAPI document, which is all that there is to get."""
        return 200, media.JSON, self._document, Refused()

    def post(self, path: str, body: Body, patience: Patience) -> Answered:
        """The answer to a call. Raises TrilithError: the call failed."""
        meta, content, context = self._request(path, body, patience)

        async def call() -> tuple[ResultMeta, Sequence[Buffer]]:
            return await _handled((await self._started())[self._root], meta, [content], context)

        answer, buffers = self._runner.run(call())
        return 200, answer.content_type, _joined(buffers), Refused()

    def open(
        self, path: str, body: Body, items: Iterable[bytes] | None, patience: Patience
    ) -> tuple[str, Generator[bytes, None, None]]:
        """The beginning of an answer that streams, or that is made of a stream: as `SyncTransport.open`."""
        meta, content, context = self._request(path, body, patience)
        signature = self._root.methods[meta.method].signature

        async def opening() -> HostedStream:
            stream = _opened((await self._started())[self._root], meta, [content], context)
            if items is not None:
                task = asyncio.ensure_future(_feed(stream, items))
                self._feeding.add(task)
                task.add_done_callback(self._feeding.discard)
            return stream

        stream = self._runner.run(opening())
        if signature.streams:
            raw = media.BINARY in streamed_types(signature.result)
            return media.BINARY if raw else SSE, self._items(stream, raw=raw)
        self._runner.run(_last(stream))
        answer, buffers = stream.answer
        return answer.content_type, (bytes(buffer) for buffer in buffers)

    def _items(self, stream: HostedStream, *, raw: bool) -> Generator[bytes, None, None]:
        try:
            while (item := self._runner.run(stream.item())) is not None:
                yield _joined(item) if raw else event(_joined(item))
        finally:
            stream.cancel()

    def _request(self, path: str, body: Body, patience: Patience) -> tuple[CallMeta, bytes, Context]:
        from trilith.service.client.transport import encoded

        method = self._paths.get(path)
        if method is None:
            raise NotFound(f"{self._root.name} has no path {path}; it has {', '.join(self._paths)}")
        content_type, content = encoded(body)
        headers = {**self._headers, "accept": body.accept, "content-type": content_type}
        query = urllib.parse.urlencode(body.query)
        meta = CallMeta(self._root.name, method, content_type, _REQUEST_ID, headers, query=query)
        deadline = None if patience.asked_s is None else time.monotonic() + patience.asked_s
        context = Context(
            request_id=_REQUEST_ID, timeline=Timeline(f"service {method}", _FLOOR), deadline=deadline, headers=headers
        )
        return meta, content, context

    async def _started(self) -> Hosts:
        """The hosts; those that others depend on start first. The user's mistakes are told with their text."""
        if self._hosts:
            return self._hosts
        source = Path(inspect.getfile(self._root.target)).parent
        started: Hosts = {}
        resolver = _HostedResolver(started, source, self._model_roots)
        for spec in reversed(service_graph(self._root)):
            host = ServiceHost(spec, resolver, debug=True)
            started[spec] = host
            await host.start()
        self._hosts = started
        return started

    def close(self) -> None:
        """Leaves and stops what was started."""
        try:
            self._runner.run(self._stop())
        finally:
            self._runner.close()

    async def _stop(self) -> None:
        for host in reversed(self._hosts.values()):
            await host.stop()


async def _handled(
    host: ServiceHost, meta: CallMeta, buffers: Sequence[Buffer], context: Context
) -> tuple[ResultMeta, Sequence[Buffer]]:
    answered: asyncio.Future[tuple[ResultMeta, Sequence[Buffer]]] = asyncio.get_running_loop().create_future()

    def done(outcome: Outcome, results: Sequence[Buffer]) -> None:
        if answered.cancelled():
            return
        if isinstance(outcome, TrilithError):
            answered.set_exception(outcome)
        else:
            answered.set_result((outcome, results))

    call = ServiceCall(meta, buffers, context, done)
    host.handle(call)
    try:
        return await answered
    except asyncio.CancelledError:
        call.cancel()
        raise


def _opened(host: ServiceHost, meta: CallMeta, buffers: Sequence[Buffer], context: Context) -> HostedStream:
    stream = HostedStream()
    stream.call = StreamServiceCall(meta, buffers, context, stream.finished, port=stream)
    host.handle(stream.call)
    return stream


async def _feed(stream: HostedStream, items: Iterable[bytes]) -> None:
    try:
        for item in items:
            await stream.put([item])
        stream.end()
    except TrilithError as error:
        stream.fail(error)


async def _last(stream: HostedStream) -> None:
    while await stream.item() is not None:
        continue  # a method that answers once has none


def _joined(buffers: Sequence[Buffer]) -> bytes:
    return b"".join(bytes(buffer) for buffer in buffers)


class _HostedResolver:
    """Finds what services refer to among the hosts of this process."""

    def __init__(self, hosts: Hosts, source: Path, model_roots: Sequence[Path]) -> None:
        self._hosts = hosts
        self._source = source
        self._model_roots = tuple(model_roots)

    def service(self, spec: ServiceSpec) -> RemoteServiceCaller:
        """The caller of that service's host."""
        return RemoteServiceCaller(spec, functools.partial(self._send, spec), functools.partial(self._open, spec))

    async def _send(
        self, spec: ServiceSpec, meta: CallMeta, buffers: Sequence[Buffer], context: Context
    ) -> tuple[ResultMeta, Sequence[Any]]:
        return await _handled(self._hosts[spec], meta, buffers, _own(spec, meta, context))

    async def _open(
        self, spec: ServiceSpec, meta: CallMeta, buffers: Sequence[Buffer], context: Context
    ) -> HostedStream:
        return _opened(self._hosts[spec], meta, buffers, _own(spec, meta, context))

    def model(self, reference: str, placement: Placement) -> ModelCaller:
        """The caller of a model in this process's own runtime."""
        from trilith.service.local_models import LocalModel  # the runtime loads numpy

        return LocalModel(reference, self._source, self._model_roots)


def _own(spec: ServiceSpec, meta: CallMeta, context: Context) -> Context:
    """The circumstances of a call that another service makes: its time ends where its caller's does."""
    return Context(
        request_id=context.request_id,
        timeline=Timeline(f"service {spec.name}.{meta.method}", _FLOOR),
        deadline=context.deadline,
        client=context.client,
        identity=context.identity,
    )

"""A service in this process, reached as a server is: bodies in, answers out, and no socket between.

Rule 1: it behaves as the served one does. Each service of the graph has a host of its own, calls between them go
through their encodings, and who has a lifecycle is entered and left.
Rule 2: the main thread runs the event loop while a call is made, so that `breakpoint()` and Ctrl-C work.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import NotFound, TrilithError
from trilith.service.call import Outcome, ServiceCall
from trilith.service.client.retries import Answered, Refused
from trilith.service.codecs import media
from trilith.service.codecs.native import Buffer
from trilith.service.describe import describe, service_graph
from trilith.service.host import ServiceHost
from trilith.service.openapi import openapi_document
from trilith.service.remote import RemoteServiceCaller
from trilith.service.spec import ServiceSpec, spec_of
from trilith.wire.calls import CallMeta, ResultMeta

if TYPE_CHECKING:
    from trilith.service.client.encoding import Body
    from trilith.service.client.patience import Patience
    from trilith.service.ports import ModelCaller, Placement

_FLOOR: Final = 2
_REQUEST_ID: Final = "call"


class HostedTransport:
    """What `SyncTransport` is for a server, for a service in this process. Used by one thread."""

    def __init__(
        self, service: object, *, model_roots: Sequence[Path] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        """Takes a decorated class or function, folders in which models are looked for first, and headers of all calls.

        Raises:
            InvalidConfig: it is no service, or cannot be served.
        """
        self._root = spec_of(service)
        self._document = msgspec.json.encode(openapi_document(describe(service)))
        self._paths = {path: method.name for method in self._root.methods.values() for path in method.routes}
        self._model_roots = tuple(model_roots)
        self._headers = {name.lower(): value for name, value in (headers or {}).items()}
        self._hosts: dict[ServiceSpec, ServiceHost] = {}
        self._runner = asyncio.Runner()
        self.url = self._root.name

    def get(self, path: str) -> Answered:
        """The OpenAPI document, which is all that there is to get."""
        return 200, media.JSON, self._document, Refused()

    def post(self, path: str, body: Body, patience: Patience) -> Answered:
        """The answer to a call. Raises TrilithError: the call failed."""
        from trilith.service.client.transport import encoded

        method = self._paths.get(path)
        if method is None:
            raise NotFound(f"{self._root.name} has no path {path}; it has {', '.join(self._paths)}")
        content_type, content = encoded(body)
        headers = {**self._headers, "accept": body.accept, "content-type": content_type}
        meta = CallMeta(self._root.name, method, content_type, _REQUEST_ID, headers)
        deadline = None if patience.asked_s is None else time.monotonic() + patience.asked_s
        context = Context(
            request_id=_REQUEST_ID, timeline=Timeline(f"service {method}", _FLOOR), deadline=deadline, headers=headers
        )
        answer, buffers = self._runner.run(self._call(meta, [content], context))
        return 200, answer.content_type, b"".join(bytes(buffer) for buffer in buffers), Refused()

    async def _call(
        self, meta: CallMeta, buffers: Sequence[Buffer], context: Context
    ) -> tuple[ResultMeta, Sequence[Buffer]]:
        if not self._hosts:
            await self._start()
        return await _handled(self._hosts[self._root], meta, buffers, context)

    async def _start(self) -> None:
        """Starts the hosts: those that others depend on first. The user's mistakes are told with their text."""
        source = Path(inspect.getfile(self._root.target)).parent
        started: dict[ServiceSpec, ServiceHost] = {}
        resolver = _HostedResolver(started, source, self._model_roots)
        for spec in reversed(service_graph(self._root)):
            host = ServiceHost(spec, resolver, debug=True)
            started[spec] = host
            await host.start()
        self._hosts = started

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


class _HostedResolver:
    """Finds what services refer to among the hosts of this process."""

    def __init__(self, hosts: dict[ServiceSpec, ServiceHost], source: Path, model_roots: Sequence[Path]) -> None:
        self._hosts = hosts
        self._source = source
        self._model_roots = tuple(model_roots)

    def service(self, spec: ServiceSpec) -> RemoteServiceCaller:
        """The caller of that service's host."""
        return RemoteServiceCaller(spec, functools.partial(self._send, spec))

    async def _send(
        self, spec: ServiceSpec, meta: CallMeta, buffers: Sequence[Buffer], context: Context
    ) -> tuple[ResultMeta, Sequence[Any]]:
        """Runs a call that another service makes. Its own context begins where the caller's deadline ends."""
        own = Context(
            request_id=context.request_id,
            timeline=Timeline(f"service {spec.name}.{meta.method}", _FLOOR),
            deadline=context.deadline,
        )
        return await _handled(self._hosts[spec], meta, buffers, own)

    def model(self, reference: str, placement: Placement) -> ModelCaller:
        """The caller of a model in this process's own runtime."""
        from trilith.service.local_models import LocalModel  # the runtime loads numpy

        return LocalModel(reference, self._source, self._model_roots)

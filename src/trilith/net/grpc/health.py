"""`grpc.health.v1.Health`: `Check` once, `Watch` as long as the client stays.

Rule: whoever knows the health is asked, never told: one poll for all watchers, and only while there are any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from trilith.errors import Draining, NotFound
from trilith.net.grpc.call import GrpcCall
from trilith.net.grpc.state import GrpcApp
from trilith.wire.grpc_health import ServingStatus, check_response, read_check_request

_POLL_S: Final = 0.25
_PREFIX: Final = b"/grpc.health.v1.Health/"

HealthSource = Callable[[str], bool | None]
"""Whether the named service serves ("" is the whole server); None when there is no such service."""


class HealthService:
    """A `GrpcService`.

    Args:
        source: knows the health.
        admit: called first with each call; what it raises is the answer. None lets all pass.
        poll_s: seconds between two questions to it while somebody watches.
    """

    def __init__(
        self,
        source: HealthSource,
        *,
        admit: Callable[[GrpcCall], None] | None = None,
        poll_s: float = _POLL_S,
    ) -> None:
        self._source = source
        self._admit = admit
        self._poll_s = poll_s
        self._seen: dict[str, ServingStatus] = {}
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.methods: dict[bytes, GrpcApp] = {_PREFIX + b"Check": self._check, _PREFIX + b"Watch": self._watch}
        self.streaming: tuple[bytes, ...] = ()

    def _status(self, service: str) -> ServingStatus:
        serves = self._source(service)
        if serves is None:
            return ServingStatus.SERVICE_UNKNOWN
        return ServingStatus.SERVING if serves else ServingStatus.NOT_SERVING

    def _service(self, call: GrpcCall) -> str:
        if self._admit is not None:
            self._admit(call)
        return read_check_request(call.message)

    def _check(self, call: GrpcCall) -> None:
        service = self._service(call)
        status = self._status(service)
        if status is ServingStatus.SERVICE_UNKNOWN:
            raise NotFound(f"there is no service {service[:200]!r} whose health could be told")
        call.reply(check_response(status))

    async def _watch(self, call: GrpcCall) -> None:
        service = self._service(call)
        changed = asyncio.Event()
        call.on_drain = changed.set
        self._add(service, changed)
        try:
            told: ServingStatus | None = None
            while True:
                changed.clear()
                status = self._status(service)
                if status is not told:
                    await call.send(check_response(status))
                    told = status
                    continue
                if call.draining:
                    raise Draining("this connection ends: watch on another one")
                await changed.wait()
        finally:
            self._remove(service, changed)

    def _add(self, service: str, changed: asyncio.Event) -> None:
        self._watchers.setdefault(service, set()).add(changed)
        self._seen[service] = self._status(service)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._poll_s, self._poll)

    def _remove(self, service: str, changed: asyncio.Event) -> None:
        watchers = self._watchers[service]
        watchers.discard(changed)
        if not watchers:
            del self._watchers[service], self._seen[service]
        if not self._watchers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._poll_s, self._poll)
        for service, watchers in self._watchers.items():
            status = self._status(service)
            if status is not self._seen[service]:
                self._seen[service] = status
                for changed in watchers:
                    changed.set()

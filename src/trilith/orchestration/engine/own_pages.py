"""What the gateway itself answers over HTTP: probes, metrics, documentation, status.

Rule: nothing here waits or changes anything; all of it is read from what others keep.
"""

from __future__ import annotations

import asyncio

import msgspec

from trilith.errors import NotFound
from trilith.net.http1 import HttpRequest
from trilith.orchestration.engine import readiness
from trilith.orchestration.engine.application import ServedApplication
from trilith.orchestration.engine.control import ReplicaRow
from trilith.orchestration.engine.front import HttpFront
from trilith.orchestration.engine.router import Router
from trilith.orchestration.engine.status import status_document
from trilith.runtime import Runtime
from trilith.service import docs_html, openapi_document
from trilith.telemetry import Metrics
from trilith.telemetry.exposition import CONTENT_TYPE, render


class OwnPages:
    """The gateway's own answers, on the public port and on that of the metrics.

    Attributes:
        application: the one that is served; None before the first.
        rows: the replicas as the agent told of them last.
    """

    def __init__(
        self,
        front: HttpFront,
        router: Router,
        runtime: Runtime,
        metrics: Metrics,
        *,
        application_comes: bool,
        keys: bool,
    ) -> None:
        """`application_comes`: there will be one. `keys`: callers need an API key."""
        self.application: ServedApplication | None = None
        self.rows: list[ReplicaRow] = []
        self._front = front
        self._router = router
        self._runtime = runtime
        self._metrics = metrics
        self._application_comes = application_comes
        self._keys = keys
        self._scraped = b""  # what /metrics says in this turn of the loop
        front.serve_plain("/livez", lambda request: request.respond(200, b'{"live":true}'))
        front.serve_plain("/readyz", self._readyz)
        front.serve_plain("/metrics", self._scrape)
        front.serve_plain("/openapi.json", self._openapi)
        front.serve_plain("/docs", self._docs)

    def admin(self, request: HttpRequest) -> None:
        """The metrics port: for operators, not for clients of the services."""
        if request.path == "/metrics":
            self._scrape(request)
        elif request.path == "/status":
            ready, draining = not self._problems(), self._front.draining
            document = status_document(self._router, self._runtime, self.rows, ready=ready, draining=draining)
            request.respond(200, msgspec.json.encode(document))
        elif request.path in ("/livez", "/readyz"):
            self._front(request)
        else:
            request.respond_error(NotFound(f"there is nothing at {request.path}; there are /metrics and /status"))

    def _readyz(self, request: HttpRequest) -> None:
        problems = self._problems()
        body = msgspec.json.encode({"ready": not problems, "problems": problems})
        request.respond(503 if problems else 200, body)

    def _problems(self) -> list[str]:
        return readiness.problems(
            services_without_replica=self._router.not_ready(),
            application_missing=self.application is None and self._application_comes,
            models_ready=self._runtime.ready,
            models_missing=self._runtime.missing(),
            draining=self._front.draining,
        )

    def _scrape(self, request: HttpRequest) -> None:
        if not self._scraped:
            # Whoever asks in the same turn of the loop, on a hundred streams of HTTP/2 say, gets the same text.
            self._scraped = render(self._metrics)
            asyncio.get_running_loop().call_soon(self._forget_scrape)
        request.respond(200, self._scraped, content_type=CONTENT_TYPE)

    def _forget_scrape(self) -> None:
        self._scraped = b""

    def _openapi(self, request: HttpRequest) -> None:
        if self.application is None:
            yet = " yet" if self._application_comes else ""
            request.respond_error(NotFound(f"there is no service here{yet}; models are at /v2"))
        else:
            request.respond(200, msgspec.json.encode(openapi_document(self.application.description, keys=self._keys)))

    def _docs(self, request: HttpRequest) -> None:
        if self.application is None:
            yet = " yet" if self._application_comes else ""
            request.respond_error(NotFound(f"there is no service here{yet}; models are at /v2"))
        else:
            request.respond(200, docs_html(self.application.description.name), content_type=b"text/html; charset=utf-8")

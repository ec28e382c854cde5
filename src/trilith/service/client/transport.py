"""HTTP for the client: the one file that imports httpx, and only when a client is made."""

from __future__ import annotations

from typing import Any

import httpx

from trilith.errors import DeadlineExceeded, NoReadyReplica, ReplicaLost, TrilithError
from trilith.service.client.encoding import Body

_CONNECT_WITHIN_S = 5.0

Answered = tuple[int, str, bytes, str | None]
"""Status, content type, body, `Retry-After`."""


def _request(body: Body, timeout_s: float | None) -> dict[str, Any]:
    headers = {"accept": body.accept}
    if timeout_s is not None:
        headers["trilith-timeout-ms"] = f"{timeout_s * 1e3:g}"
    timeout = httpx.Timeout(timeout_s, connect=_CONNECT_WITHIN_S)
    if body.fields:
        return {"headers": headers, "files": list(body.fields), "timeout": timeout}
    headers["content-type"] = body.content_type
    return {"headers": headers, "content": body.content, "timeout": timeout}


def _answer(response: httpx.Response) -> Answered:
    headers = response.headers
    return response.status_code, headers.get("content-type", ""), response.content, headers.get("retry-after")


def _error(error: httpx.HTTPError, url: str) -> TrilithError:
    if isinstance(error, httpx.ConnectError) and "CERTIFICATE_VERIFY_FAILED" not in str(error) and "SSL" in str(error):
        plain = url.replace("https://", "http://", 1)
        return NoReadyReplica(f"no TLS connection to {url}: {error}; if the server speaks plain HTTP, write {plain}")
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return NoReadyReplica(f"nothing answers at {url}: {error}; is the server running?")
    if isinstance(error, httpx.TimeoutException):
        return DeadlineExceeded(f"{url} did not answer within the client's time limit")
    return ReplicaLost(f"the connection to {url} broke before the answer was there: {error}")


def _error_of_first(error: httpx.HTTPError, url: str) -> TrilithError:
    """Of the first request to a server, about which nothing is known yet."""
    found = _error(error, url)
    if not isinstance(found, ReplicaLost) or url.startswith("https://"):
        return found
    secure = url.replace("http://", "https://", 1)
    return ReplicaLost(f"{found.message}; if the server speaks TLS, write {secure}")


def _check_open(http: httpx.Client | httpx.AsyncClient, url: str) -> None:
    if http.is_closed:
        raise RuntimeError(f"the client of {url} is closed: make a new one, or call inside its `with` block")


class SyncTransport:
    """Sends requests and waits; keeps connections open between them. May be used by several threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, trust_env=False)

    def post(self, path: str, body: Body, timeout_s: float | None) -> Answered:
        """The answer to a call.

        Raises:
            NoReadyReplica, DeadlineExceeded, ReplicaLost: there was none.
            RuntimeError: it is closed.
        """
        _check_open(self._http, self.url)
        try:
            return _answer(self._http.post(path, **_request(body, timeout_s)))
        except httpx.HTTPError as error:
            raise _error(error, self.url) from error

    def get(self, path: str) -> Answered:
        """The answer to a GET. RuntimeError: it is closed."""
        _check_open(self._http, self.url)
        try:
            return _answer(self._http.get(path, timeout=_CONNECT_WITHIN_S))
        except httpx.HTTPError as error:
            raise _error_of_first(error, self.url) from error

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()


class AsyncTransport:
    """The same, on an event loop."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(base_url=url, trust_env=False)

    async def post(self, path: str, body: Body, timeout_s: float | None) -> Answered:
        """The answer to a call.

        Raises:
            NoReadyReplica, DeadlineExceeded, ReplicaLost: there was none.
            RuntimeError: it is closed.
        """
        _check_open(self._http, self.url)
        try:
            return _answer(await self._http.post(path, **_request(body, timeout_s)))
        except httpx.HTTPError as error:
            raise _error(error, self.url) from error

    async def get(self, path: str) -> Answered:
        """The answer to a GET. RuntimeError: it is closed."""
        _check_open(self._http, self.url)
        try:
            return _answer(await self._http.get(path, timeout=_CONNECT_WITHIN_S))
        except httpx.HTTPError as error:
            raise _error_of_first(error, self.url) from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

"""The outermost part of HTTP: what pages of other origins may do, before anything else is asked.

Rule: what a browser asks on behalf of a page (a preflight) takes no slot, no key and no replica, and is answered while
the server starts, stops or is full.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from functools import lru_cache
from typing import Any, Final

from trilith.errors import Forbidden
from trilith.net.http1 import HttpApp, HttpRequest
from trilith.wire.cors import CorsPolicy, without_cors

_KNOWN_ORIGINS: Final = 128
_NO_CONTENT: Final = 204
_ORIGIN: Final = b"origin"
_METHOD: Final = b"access-control-request-method"
_HEADERS: Final = b"access-control-request-headers"


class CorsDoor:
    """Answers preflights, and has every answer name its origin.

    Args:
        app: answers everything else.
        policy: what pages may do.
    """

    def __init__(self, app: HttpApp, policy: CorsPolicy) -> None:
        self._app = app
        self._policy = policy
        self._of_origin = lru_cache(maxsize=_KNOWN_ORIGINS)(policy.answer)

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers a request, now or later."""
        origin = _preflight_origin(request)
        if origin is None:
            return self._app(request)
        method, wanted = request.header(_METHOD) or b"", request.header(_HEADERS)
        try:
            headers = self._policy.preflight(origin, method, wanted)
        except Forbidden as error:
            request.respond_error(error)
        else:
            request.respond(_NO_CONTENT, content_type=b"", headers=headers)
        return None

    def headers(self, request: HttpRequest, headers: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
        """The headers of every answer: those that it has, and what is said to its origin."""
        own = headers if _preflight_origin(request) is not None else without_cors(headers)
        return (*own, *self._of_origin(request.header(_ORIGIN)))


def _preflight_origin(request: HttpRequest) -> bytes | None:
    """The origin of the page on whose behalf a browser asks whether it may ask; None: it is no such request."""
    if request.method != "OPTIONS" or request.header(_METHOD) is None:
        return None
    return request.header(_ORIGIN)

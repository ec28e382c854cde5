"""Before all other doors: requests by the paths of a cloud become requests by the protocol's own.

Rule: only the path and the form change. Keys, restrictions, limits and metrics see the request as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from trilith.errors import CallerError
from trilith.net.http1 import HttpApp, HttpRequest
from trilith.wire.oip_binary import HEADER_LENGTH
from trilith.wire.platforms import PlatformRoutes, hosted_target, json_size, predict_target


class PlatformDoor:
    """Gives requests the protocol's path.

    Args:
        app: answers them.
        platforms: the clouds that call.
        models: the names of the models that there are.
    """

    def __init__(self, app: HttpApp, platforms: Sequence[PlatformRoutes], models: Callable[[], Sequence[str]]) -> None:
        self._app = app
        self._models = models
        self._health = {each.health_path: each.health for each in platforms}
        self._predict = {each.predict_path: each for each in platforms}
        self._hosting = next((each for each in platforms if each.models_path), None)

    def __call__(self, request: HttpRequest) -> Coroutine[Any, Any, None] | None:
        """Answers a request, now or later."""
        path = request.path
        if (health := self._health.get(path)) is not None:
            request.path = health
        elif (platform := self._predict.get(path)) is not None:
            try:
                self._direct(request, platform)
            except CallerError as error:
                request.respond_error(error)
                return None
        elif self._hosting is not None and path.startswith(self._hosting.models_path):
            try:
                self._direct_hosted(request, self._hosting)
            except CallerError as error:
                request.respond_error(error)
                return None
        return self._app(request)

    def _direct(self, request: HttpRequest, platform: PlatformRoutes) -> None:
        header = platform.redirect_header.encode()
        redirect = request.header(header) if header else None
        request.path = predict_target(platform, redirect, () if platform.model else self._models())
        self._take_form(request, platform)

    def _direct_hosted(self, request: HttpRequest, platform: PlatformRoutes) -> None:
        if request.path[len(platform.models_path) :][:1] not in ("", "/"):
            return  # of a longer name, which is nobody's here
        request.path, calls = hosted_target(platform, request.path)
        if calls:
            self._take_form(request, platform)

    def _take_form(self, request: HttpRequest, platform: PlatformRoutes) -> None:
        """Reads a binary message as its content type says, and has the answer say it so."""
        size = json_size(platform, request.header(b"content-type"))
        if size is not None:
            others = [each for each in request.headers if each[0] != HEADER_LENGTH]
            request.headers = [*others, (HEADER_LENGTH, size)]
        request.binary_form = platform.binary_form.encode()

"""Models that a cloud hosts beside one another: loaded from where it says, listed, told and unloaded; SageMaker's way.

    POST /models {"model_name": NAME, "url": FOLDER or URL}     GET /models[?next_page_token=TOKEN]
    GET /models/NAME                                            DELETE /models/NAME

Rule 1: what was loaded so and is there is what the repository says, whoever unloaded or loaded it since. Models of the
    repositories are not listed, and their names are taken.
Rule 2: a name is taken from the moment it is asked for: of two loads at the same time one is refused.
Rule 3: a load goes on though whoever asked for it has gone: what is there afterwards is listed.
Rule 4: a name is free again when its model has ended; an unload that fails leaves it as it is.
Rule 5: a load that finds no room is told as such, so that the cloud unloads others and tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from trilith.errors import Conflict, InvalidConfig, InvalidInput, SetupError, UnknownModel, UnknownReference
from trilith.runtime.loading import LoadFailed
from trilith.runtime.protocol.port import RepositoryPort
from trilith.runtime.protocol.routes import Route
from trilith.runtime.public_cause import public_cause
from trilith.wire.oip_json import loads
from trilith.wire.oip_status import NoRoomForModel, says_no_room

HOSTED_ENDPOINTS: Final = frozenset(("repository_hosted", "repository_hosted_model"))
PAGE: Final = 100
"""Models in one answer, unless fewer are asked for."""


class HostedModels:
    """Those of one server.

    Args:
        repository: loads and unloads.
        whole_causes: whether it is told with paths and tracebacks why a load failed.
    """

    def __init__(self, repository: RepositoryPort, *, whole_causes: bool = False) -> None:
        self._repository = repository
        self._whole_causes = whole_causes
        self._coming: set[str] = set()
        self._begun: set[asyncio.Task[None]] = set()

    async def answer(self, method: str, route: Route, query: str, body: bytes | memoryview) -> bytes:
        """The body of the answer to one of `HOSTED_ENDPOINTS`; status 200.

        Raises:
            TrilithError: why there is none.
        """
        if route.endpoint == "repository_hosted" and method == "POST":
            await self._load(*_asked(body))
            return b"{}"
        if route.endpoint == "repository_hosted":
            return orjson.dumps(self._page(query))
        url = self._repository.hosted().get(route.model)
        if url is None:
            raise UnknownModel(f"model '{route.model[:200]}' is not loaded")
        if method == "DELETE":
            await self._repository.unload(route.model, dependents=True)
            return b"{}"
        return orjson.dumps(_entry(route.model, url))

    async def _load(self, name: str, url: str) -> None:
        if name in self._coming or name in self._repository.hosted():
            raise Conflict(f"model '{name[:200]}' is loaded already; delete it first")
        self._coming.add(name)
        task = asyncio.get_running_loop().create_task(self._place(name, url))
        self._begun.add(task)
        task.add_done_callback(self._ended)
        await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._begun.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked may have gone

    async def _place(self, name: str, url: str) -> None:
        try:
            await self._repository.host(name, url)
        except (InvalidConfig, UnknownReference, SetupError) as error:
            shown = error.message
            if not self._whole_causes:
                shown = error.public if isinstance(error, LoadFailed) else public_cause(error.message, name)
            kind = NoRoomForModel if says_no_room(error.message) else InvalidInput
            raise kind(shown) from error
        finally:
            self._coming.discard(name)

    def _page(self, query: str) -> dict[str, Any]:
        given = {key: values[-1] for key, values in parse_qs(query, keep_blank_values=True).items()}
        token, limit = given.get("next_page_token", ""), given.get("limit", str(PAGE))
        if not (limit.isascii() and limit.isdigit() and len(limit) < 10 and int(limit) > 0):
            raise InvalidInput(f"limit: must be a number of models >= 1, got {limit!r:.100}")
        urls = self._repository.hosted()
        names = sorted(name for name in urls if name > token)
        page = names[: min(int(limit), PAGE)]
        more = {"nextPageToken": page[-1]} if len(page) < len(names) else {}
        return {"models": [_entry(name, urls[name]) for name in page], **more}


def _entry(name: str, url: str) -> Mapping[str, str]:
    return {"modelName": name, "modelUrl": url}


def _asked(body: bytes | memoryview) -> tuple[str, str]:
    """The name and the place of a model to load."""
    message = loads(body)
    found = []
    for key in ("model_name", "url"):
        value = message.get(key) if isinstance(message, dict) else None
        if not isinstance(value, str) or not value:
            raise InvalidInput(f'{key}: must be a text; expected {{"model_name": NAME, "url": FOLDER}}')
        found.append(value)
    name, url = found
    return name, url

"""Which endpoint of the Open Inference Protocol a path names. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from trilith.errors import NotFound
from trilith.wire.platforms import HOSTED

_SERVER: Final[dict[str, tuple[str, str]]] = {
    "/v2": ("server_metadata", "GET"),
    "/v2/": ("server_metadata", "GET"),
    "/v2/health/live": ("live", "GET"),
    "/v2/health/ready": ("ready", "GET"),
    "/v2/models/stats": ("statistics", "GET"),
    "/v2/trace/setting": ("trace", "GET, POST"),
    "/v2/logging": ("logging", "GET, POST"),
    "/v2/systemsharedmemory/status": ("shared_memory_status", "GET"),
    "/v2/cudasharedmemory/status": ("shared_memory_status", "GET"),
    "/v2/systemsharedmemory/unregister": ("shared_memory", "POST"),
    "/v2/cudasharedmemory/unregister": ("shared_memory", "POST"),
}
_MODEL: Final[dict[str, tuple[str, str]]] = {
    "": ("model_metadata", "GET"),
    "ready": ("model_ready", "GET"),
    "config": ("model_config", "GET"),
    "stats": ("model_statistics", "GET"),
    "infer": ("infer", "POST"),
    "generate": ("generate", "POST"),
    "generate_stream": ("generate_stream", "POST"),
    "trace/setting": ("trace", "GET, POST"),
}
_OF_ONE_MODEL: Final = frozenset(name for name, _ in _MODEL.values() if name != "trace")
_REGION: Final = {"status": "GET", "register": "POST", "unregister": "POST"}
_MAX_CACHED: Final = 1024


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint and what the path says of the model.

    Attributes:
        endpoint: its name, as metrics show it.
        method: the HTTP method that it takes, or several as `GET, POST`.
        model: the model's name, or "".
        version: the version, or "".
        region: the name of a shared-memory region, or "".
        repository: the repository, or "".
    """

    endpoint: str
    method: str
    model: str = ""
    version: str = ""
    region: str = ""
    repository: str = ""

    def takes(self, method: str) -> bool:
        """Whether it takes this HTTP method. What takes GET takes HEAD."""
        return method in self.allowed.split(", ")

    @property
    def allowed(self) -> str:
        """The methods that it takes, as the header `Allow` lists them."""
        return self.method.replace("GET", "GET, HEAD")


class Routes:
    """Finds routes, and remembers the first thousand paths."""

    def __init__(self) -> None:
        self._known: dict[str, Route] = {}

    def find(self, path: str) -> Route:
        """The route of a raw path without its query.

        Raises:
            NotFound: there is no such endpoint, or the version is no number.
        """
        route = self._known.get(path)
        if route is None:
            route = route_of(path)
            if len(self._known) < _MAX_CACHED:
                self._known[path] = route
        return route


def route_of(path: str) -> Route:
    """The route of a raw path; see `Routes.find`."""
    server = _SERVER.get(path)
    if server is not None:
        return Route(*server)
    parts = path.split("/")
    if len(parts) == 6 and parts[2] in ("systemsharedmemory", "cudasharedmemory") and parts[3] == "region":
        return _region(path, unquote(parts[4]), parts[5])
    if path == HOSTED:
        return Route("repository_hosted", "GET, POST")
    if parts[:3] == ["", "v2", "hosted"] and len(parts) == 4 and parts[3]:
        return Route("repository_hosted_model", "GET, DELETE", model=unquote(parts[3]))
    if parts[:3] == ["", "v2", "repository"]:
        return _repository_route(path, parts[3:])
    if parts[:3] != ["", "v2", "models"] or len(parts) < 4 or not parts[3]:
        raise NotFound(f"Not Found: there is no endpoint {path[:200]!r}")
    model, rest = unquote(parts[3]), parts[4:]
    version = ""
    if rest[:1] == ["versions"]:
        version = rest[1] if len(rest) > 1 else ""
        rest = rest[2:]
        if not (version.isascii() and version.isdigit()):
            raise NotFound(f"Not Found: a model version is a number, got {version[:40]!r} in the path {path[:200]!r}")
    endpoint = _MODEL.get("/".join(rest))
    if endpoint is None:
        raise NotFound(f"Not Found: there is no endpoint {path[:200]!r}")
    return Route(*endpoint, model=model, version=version)


@lru_cache(maxsize=_MAX_CACHED)
def model_at(path: str) -> str | None:
    """The model that a path asks, or asks about, or "" for all of them; None for one that asks something else."""
    try:
        route = route_of(path)
    except NotFound:
        return None
    return route.model if route.endpoint in _OF_ONE_MODEL or route.endpoint == "statistics" else None


def _region(path: str, region: str, action: str) -> Route:
    method = _REGION.get(action)
    if method is None:
        raise NotFound(f"Not Found: there is no endpoint {path[:200]!r}")
    return Route("shared_memory_status" if action == "status" else "shared_memory", method, region=region)


def _repository_route(path: str, parts: list[str]) -> Route:
    """`[REPOSITORY/]index` or `[REPOSITORY/]models/MODEL/{load,unload}`."""
    named = len(parts) in (2, 4)
    repository, rest = (unquote(parts[0]), parts[1:]) if named else ("", parts)
    if rest == ["index"]:
        return Route("repository_index", "POST", repository=repository)
    if len(rest) == 3 and rest[0] == "models" and rest[2] in ("load", "unload"):
        return Route(f"repository_{rest[2]}", "POST", model=unquote(rest[1]), repository=repository)
    raise NotFound(f"Not Found: there is no endpoint {path[:200]!r}")

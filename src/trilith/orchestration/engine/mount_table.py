"""Which mount of the served application a path leads to. Pure.

Rule: the longest mount that the path begins with, by whole segments of the path as it came: nothing is decoded, so that
    who asks whether a request may pass and who passes it on see the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from trilith.orchestration.deployments import MethodRoute
from trilith.wire.exchange import ALL


class Mounted(NamedTuple):
    """What a path leads to.

    Attributes:
        route: as far as a router must know it.
        root_path: the mount: "/ui", or "" for the root.
        target: the name by which its replica knows it.
    """

    route: MethodRoute
    root_path: str
    target: str


class MountTable:
    """The mounts of an application.

    Args:
        mounts: by their paths: "/ui", or "" for the root.
        is_own: whether a path is the server's own.
        behind: methods by path that middleware of the service stands before, as it does before the mounts.
    """

    __slots__ = ("_exact", "_is_own", "_mounts", "paths")

    def __init__(
        self,
        mounts: Iterable[tuple[str, MethodRoute]] = (),
        is_own: Callable[[str], bool] = lambda _: False,
        behind: Mapping[str, MethodRoute] | None = None,
    ) -> None:
        self._is_own = is_own
        self._exact = {path: Mounted(route, "", ALL) for path, route in (behind or {}).items()}
        longest_first = sorted(mounts, key=lambda mount: len(mount[0]), reverse=True)
        if behind is None:
            self._mounts = [(path, Mounted(route, path, path or "/")) for path, route in longest_first]
        else:
            self._mounts = [(path, Mounted(route, "", ALL)) for path, route in longest_first]
        self.paths = [*self._exact, *(path or "/" for path, _ in self._mounts)]

    def find(self, path: str) -> Mounted | None:
        """What a path leads to; None: nothing, or the path is the server's own."""
        found = self._exact.get(path)
        if found is not None:
            return found
        if not self._mounts or not path.startswith("/") or self._is_own(path):
            return None
        for root, mounted in self._mounts:
            if path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
                return mounted
        return None

"""Which mount of the served application a path leads to. Pure.

Rule: the longest mount that the path begins with, by whole segments of the path as it came: nothing is decoded, so that
    who asks whether a request may pass and who passes it on see the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trilith.orchestration.deployments import MethodRoute


class MountTable:
    """The mounts of an application.

    Args:
        mounts: by their paths: "/ui", or "" for the root.
        is_own: whether a path is the server's own.
    """

    __slots__ = ("_is_own", "_mounts", "paths")

    def __init__(
        self, mounts: Iterable[tuple[str, MethodRoute]] = (), is_own: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._is_own = is_own
        self._mounts = sorted(mounts, key=lambda mount: len(mount[0]), reverse=True)
        self.paths = [path or "/" for path, _ in self._mounts]

    def find(self, path: str) -> tuple[str, MethodRoute] | None:
        """The mount of a path and its route; None: there is none, or the path is the server's own."""
        if not self._mounts or not path.startswith("/") or self._is_own(path):
            return None
        for root, route in self._mounts:
            if path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
                return root, route
        return None

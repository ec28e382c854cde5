"""How a runtime works, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from trilith.core.load_options import LoadOptions
from trilith.runtime.backends import BackendKind
from trilith.runtime.sources.progress import Progress, silent


def _tell_nobody(done: int, total: int, name: str) -> None:
    """A `loading` that tells nobody."""


class RuntimeConfig(LoadOptions, frozen=True, kw_only=True):
    """How a runtime works: what `LoadOptions` says, and more.

    Attributes:
        backends: further backends by name; they go before those that come with Trilith.
        keep_statistics: whether statistics go on when a model is loaded again; else they begin anew, as Triton's do.
        drain_timeout_s: how long requests in flight may take when a model or the runtime stops.
        memory: a folder in which it is kept what clients load and unload, for a runtime that begins there after this
            one has died; None to keep nothing.
        progress: told of downloads, from the threads that load.
        loading: told at the start after each model, loaded or not: how many are done, of how many, and its name.
    """

    backends: dict[str, BackendKind] = msgspec.field(default_factory=dict)
    keep_statistics: bool = True
    drain_timeout_s: float = 30.0
    memory: Path | None = None
    progress: Progress = silent
    loading: Callable[[int, int, str], None] = _tell_nobody

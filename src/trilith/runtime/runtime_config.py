"""How a runtime works, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trilith.errors import InvalidConfig
from trilith.runtime.backends import BackendKind
from trilith.runtime.changes import ControlMode
from trilith.runtime.sources.progress import Progress, silent


def _tell_nobody(done: int, total: int, name: str) -> None:
    """A `loading` that tells nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeConfig:
    """How a runtime works.

    Attributes:
        backends: further backends by name; they go before those that come with Trilith.
        mode: who decides which models are loaded: nobody after the start, the files, or clients.
        load_at_start: names of the models to load when the runtime starts, `*` for all; None: none when clients decide,
            else all.
        on_demand: whether a model is loaded when it is wanted for the first time, instead of at the start.
        max_loaded_models: how many models may be in memory that were loaded on demand; None for no bound. The least
            recently used goes when another must come.
        load_on_demand_wait_s: how long a request waits for its model to be loaded, in seconds.
        poll_s: seconds between two looks at the repositories, when the files decide.
        load_threads: how many models load at the same time.
        load_timeout_s: how long a load may give no sign that it gets on, in seconds, before it is given up; None for
            ever. A configuration may say another time (`load_timeout_ms` in model.yaml).
        model_load_retry_count: how often a load that failed is tried again, at once. A wrong configuration is not.
        config_name: where a model's folder holds `configs/NAME.pbtxt` (or `.yaml`), that is its configuration.
        strict_readiness: whether the runtime is ready only when every model is that should serve.
        keep_statistics: whether statistics go on when a model is loaded again; else they begin anew, as Triton's do.
        drain_timeout_s: how long requests in flight may take when a model or the runtime stops.
        memory: a folder in which it is kept what clients load and unload, for a runtime that begins there after this
            one has died; None to keep nothing.
        progress: told of downloads, from the threads that load.
        loading: told at the start after each model, loaded or not: how many are done, of how many, and its name.
    """

    backends: dict[str, BackendKind] = field(default_factory=dict)
    mode: ControlMode = ControlMode.NONE
    load_at_start: tuple[str, ...] | None = None
    on_demand: bool = False
    max_loaded_models: int | None = None
    load_on_demand_wait_s: float = 60.0
    poll_s: float = 15.0
    load_threads: int = 2
    load_timeout_s: float | None = 600.0
    model_load_retry_count: int = 0
    config_name: str = ""
    strict_readiness: bool = True
    keep_statistics: bool = True
    drain_timeout_s: float = 30.0
    memory: Path | None = None
    progress: Progress = silent
    loading: Callable[[int, int, str], None] = _tell_nobody

    def __post_init__(self) -> None:
        if self.poll_s <= 0:
            raise InvalidConfig(f"poll_s: must be > 0, got {self.poll_s}")
        if self.on_demand and self.mode is not ControlMode.NONE:
            raise InvalidConfig(f"on_demand: requests decide what is loaded, so mode must be none, got {self.mode}")
        if self.max_loaded_models is not None and self.max_loaded_models < 1:
            raise InvalidConfig(f"max_loaded_models: must be >= 1 or None, got {self.max_loaded_models}")
        if self.load_on_demand_wait_s <= 0:
            raise InvalidConfig(f"load_on_demand_wait_s: must be > 0, got {self.load_on_demand_wait_s}")
        if self.load_timeout_s is not None and self.load_timeout_s <= 0:
            raise InvalidConfig(f"load_timeout_s: must be > 0 or None, got {self.load_timeout_s}")
        if self.load_threads < 1:
            raise InvalidConfig(f"load_threads: must be >= 1, got {self.load_threads}")
        if self.model_load_retry_count < 0:
            raise InvalidConfig(f"model_load_retry_count: must be >= 0, got {self.model_load_retry_count}")
        if self.config_name and (Path(self.config_name).name != self.config_name or self.config_name.startswith(".")):
            raise InvalidConfig(f"config_name: must be a file's name without its ending, got {self.config_name!r}")

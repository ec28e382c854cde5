"""Which models are loaded, when and how, and what is counted of them, as one value: the runtime does it.

Rule: these options stand here alone, with their defaults and ranges. A runtime's configuration and that of a server
    have them by inheriting, and the command line takes its defaults and checks from here.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from trilith.core.backend_config import BackendConfig, read_backend_config
from trilith.core.metrics_config import MetricsConfig, read_metrics_config
from trilith.core.plain_numbers import plain_number
from trilith.errors import InvalidConfig


class ControlMode(enum.StrEnum):
    """Who decides which models are loaded; Triton's words."""

    NONE = "none"  # all at the start, and that is it
    POLL = "poll"  # what lies in the repositories
    EXPLICIT = "explicit"  # clients, by load and unload


class Range(NamedTuple):
    """What a number may be; infinite is never."""

    least: float
    most: float

    def holds(self, number: float) -> bool:
        """Whether the number is one of these."""
        return self.least <= number <= self.most and number != math.inf

    def __str__(self) -> str:
        if self.most == math.inf:
            return f"at least {plain_number(self.least)} and finite"
        return f"from {plain_number(self.least)} to {plain_number(self.most)}"


RANGES: Final[Mapping[str, Range]] = MappingProxyType(
    {
        "max_loaded_models": Range(1, 1 << 20),
        "load_on_demand_wait_s": Range(0.001, math.inf),
        "poll_s": Range(0.001, math.inf),
        "load_threads": Range(1, 1024),
        "load_timeout_s": Range(0.001, math.inf),
        "model_load_retry_count": Range(0, 1024),
    }
)
"""Of the numbers of `LoadOptions`; where None is allowed it is no number."""


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which models are loaded, when and how.

    Attributes:
        mode: who decides which models are loaded: nobody after the start, the files, or clients.
        load_at_start: names of the models to load at the start, `*` for all; None: none when clients decide or requests
            do, else all.
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
        strict_readiness: whether a runtime is ready only when every model is that should serve.
        backend_directory: a folder of backends, each a folder with a `model.py` that serves many models; "" for none.
        repoagent_directory: a folder of repository agents, each a folder with an `agent.py`; "" for none.
        disable_auto_complete_config: whether a model's configuration must say everything: all inputs and outputs, each
            with its datatype and dims. Nothing is taken from the model then.
        backend_config: Triton's settings of backends, as typed; see `backend_config.py`.
        metrics_config: which metrics with Triton's names there are, as typed; see `metrics_config.py`.
        gpu_instances_on_cpu: whether a model whose configuration asks for a GPU is run on a CPU, instead of refused.
        model_settings: by model, keys of its `model.yaml` that stand before what its configuration says.
        model_namespacing: whether several repositories may hold models of one name. A request finds a name that only
            one loaded model has.
    """

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
    backend_directory: str = ""
    repoagent_directory: str = ""
    disable_auto_complete_config: bool = False
    backend_config: tuple[str, ...] = ()
    metrics_config: tuple[str, ...] = ()
    gpu_instances_on_cpu: bool = False
    model_settings: dict[str, dict[str, Any]] = {}
    model_namespacing: bool = False

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            number = getattr(self, name)
            if number is not None and not allowed.holds(number):
                raise InvalidConfig(f"{name}: must be {allowed}, got {plain_number(number)}")
        read_backend_config(self.backend_config)
        read_metrics_config(self.metrics_config)
        if self.on_demand and self.mode is not ControlMode.NONE:
            raise InvalidConfig(f"on_demand: requests decide what is loaded, so mode must be none, got {self.mode}")
        if self.on_demand and self.model_namespacing:
            raise InvalidConfig(
                "model_namespacing: a request for a name cannot say which of two models it would load, so on_demand "
                "must be off"
            )
        if not is_config_name(self.config_name):
            raise InvalidConfig(f"config_name: must be a file's name without its ending, got {self.config_name!r}")

    @property
    def shown_metrics(self) -> MetricsConfig:
        """What `metrics_config` says."""
        return read_metrics_config(self.metrics_config)

    @property
    def backend_settings(self) -> BackendConfig:
        """What `backend_config` says."""
        return read_backend_config(self.backend_config)


def is_config_name(name: str) -> bool:
    """Whether a configuration may be named so, or is not named at all."""
    return not name or (PurePath(name).name == name and not name.startswith("."))

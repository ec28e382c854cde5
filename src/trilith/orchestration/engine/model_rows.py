"""How the gateway sets its runtime up, and what it tells a person of the models in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trilith.orchestration.engine.control import ModelRow
from trilith.orchestration.engine.downloads import ShownDownloads
from trilith.orchestration.spec import RepositoryOptions
from trilith.runtime import ControlMode, Runtime, RuntimeConfig


def runtime_config(
    options: RepositoryOptions, *, compat: bool, loads: Path, loading: Callable[[int, int, str], None]
) -> RuntimeConfig:
    """The runtime's configuration.

    Args:
        options: which models are served.
        compat: as Triton's.
        loads: where it is kept what clients load.
        loading: told how far the start is.
    """
    return RuntimeConfig(
        mode=ControlMode(options.mode),
        load_at_start=options.load,
        on_demand=options.on_demand,
        max_loaded_models=options.max_loaded_models,
        load_on_demand_wait_s=options.load_on_demand_wait_s,
        poll_s=options.poll_s,
        load_threads=options.load_threads,
        load_timeout_s=options.load_timeout_s,
        model_load_retry_count=options.model_load_retry_count,
        config_name=options.config_name,
        strict_readiness=options.strict_readiness,
        keep_statistics=not compat,
        memory=loads,
        progress=ShownDownloads(),
        loading=loading,
    )


def model_rows(runtime: Runtime) -> list[ModelRow]:
    """One row a model version, by name and version."""
    return [
        ModelRow(
            name=model.name,
            version=model.version,
            backend=model.backend,
            instances=model.config.instances.count,
            device="CPU",
            load_s=model.load_s,
            state=str(model.state),
            reason=model.reason,
        )
        for model in runtime.models()
    ]

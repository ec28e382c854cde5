"""How the gateway sets its runtime up, and what it tells a person of the models in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trilith.core.load_options import LoadOptions
from trilith.orchestration.engine.control import ModelRow
from trilith.orchestration.engine.downloads import ShownDownloads
from trilith.orchestration.spec import RepositoryOptions
from trilith.runtime import Runtime, RuntimeConfig


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
    given = {name: getattr(options, name) for name in LoadOptions.__struct_fields__}
    return RuntimeConfig(
        **given,
        keep_statistics=not compat,
        memory=loads,
        progress=ShownDownloads(),
        loading=loading,
    )


def model_rows(runtime: Runtime) -> list[ModelRow]:
    """One row a model version, by name and version."""
    return [
        ModelRow(
            name=model.name if not model.namespace else f"{model.name} of {model.namespace}",
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

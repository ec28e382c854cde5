"""Looks what there is to load of a model: fetches files that are elsewhere, and reads its configuration. Blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trilith.errors import SetupError, UnknownReference
from trilith.runtime.backends import BackendKind
from trilith.runtime.changes import Standing
from trilith.runtime.load_run import LoadRun
from trilith.runtime.overrides import Override
from trilith.runtime.repository import ModelPlan, plan_model
from trilith.runtime.roots import Roots


def plan_load(
    roots: Roots,
    kinds: Mapping[str, BackendKind],
    name: str,
    path: Path | None,
    override: Override | None,
    config_name: str,
    run: LoadRun,
) -> tuple[ModelPlan, Standing]:
    """What is to be loaded, and from what.

    Args:
        roots: model repositories.
        kinds: backends by name.
        name: the model's name.
        path: where it lies, when that is not a repository.
        override: what a client sent with the load.
        config_name: see `config_file`.
        run: told how far it is.

    Raises:
        UnknownReference: it is in no repository, or has no version to serve.
        SetupError: it is in two, or its configuration is wrong.
    """
    run.enter("looking for its files")
    if override is not None and override.folder is not None:
        path = override.folder
    if path is None:
        folders = roots.fetch(name)
        if not folders:
            raise UnknownReference(f"failed to load '{name}', no such model folder in the repositories {roots}")
        if len(folders) > 1:
            raise SetupError(f"model '{name}' stands in more than one repository: {_joined(folders)}")
        path = folders[0]
    run.enter("reading its configuration")
    config = override.config_of(path, config_name) if override is not None else None
    plan = plan_model(name, path, kinds, config, config_name)
    return plan, plan.standing()


def _joined(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths)) or "(none)"

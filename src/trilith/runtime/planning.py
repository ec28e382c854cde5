"""Looks what there is to load of a model: fetches files that are elsewhere, and reads its configuration. Blocks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from trilith.core.foreign import named_error
from trilith.errors import SetupError, TrilithError, UnknownReference
from trilith.runtime.backends import BackendKind
from trilith.runtime.changes import Standing
from trilith.runtime.devices import OPTION
from trilith.runtime.load_run import LoadRun
from trilith.runtime.naming import name_of
from trilith.runtime.overrides import Override
from trilith.runtime.repository import ModelPlan, plan_model
from trilith.runtime.roots import Roots
from trilith.runtime.steps import LoadRules
from trilith.runtime.strictness import as_said

_log: Final = logging.getLogger("trilith.runtime")


def plan_load(
    roots: Roots,
    kinds: Mapping[str, BackendKind],
    key: str,
    path: Path | None,
    override: Override | None,
    rules: LoadRules,
    run: LoadRun,
) -> tuple[ModelPlan, Standing]:
    """What is to be loaded, and from what.

    Args:
        roots: model repositories.
        kinds: backends by name.
        key: what the model is known by.
        path: where it lies, when that is not a repository.
        override: what a client sent with the load.
        rules: which of its configurations holds, and how long its loads may take where that says nothing.
        run: told how far it is.

    Raises:
        UnknownReference: it is in no repository, or has no version to serve.
        SetupError: it is in two, or its configuration is wrong.
    """
    try:
        return _plan_load(roots, kinds, key, path, override, rules, run)
    except TrilithError:
        raise
    except Exception as error:  # whatever lies in one model's folder, it is an error of that model
        raise SetupError(f"model '{name_of(key)}' cannot be looked at: {named_error(error)}") from error


def _plan_load(
    roots: Roots,
    kinds: Mapping[str, BackendKind],
    key: str,
    path: Path | None,
    override: Override | None,
    rules: LoadRules,
    run: LoadRun,
) -> tuple[ModelPlan, Standing]:
    name = name_of(key)
    run.enter("looking for its files")
    if override is not None and override.folder is not None:
        path = override.folder
    if path is None:
        folders = roots.fetch(key, run)
        if not folders:
            raise UnknownReference(f"failed to load '{name}', no such model folder in the repositories {roots}")
        if len(folders) > 1:
            raise SetupError(
                f"model '{name}' stands in more than one repository: {_joined(folders)}; rename the folder of one, or "
                "start the server with --model-namespacing"
            )
        path = folders[0]
    run.enter("reading its configuration")
    sent = override.spec_of(path, rules.config_name) if override is not None else None
    plan = plan_model(
        name,
        path,
        kinds,
        sent,
        rules.config_name,
        gpu_instances_on_cpu=rules.gpu_instances_on_cpu,
        settings=rules.settings.get(name, {}),
    )
    for field in plan.moved:
        _log.warning("model '%s': %s asks for a GPU; it runs on a CPU, as %s says", name, field, OPTION)
    if not rules.auto_complete:
        plan = as_said(plan)
    rows = rules.backends.rows_of(plan.spec.backend)
    if rows is not None:
        plan = plan.with_spec(replace(plan.spec, default_rows=rows))
    if plan.spec.load_timeout_s is None:
        plan = plan.with_spec(replace(plan.spec, load_timeout_s=rules.timeout_s))
    return plan, plan.standing()


def _joined(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths)) or "(none)"

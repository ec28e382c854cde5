"""Looks what there is to load of a model: fetches files that are elsewhere, and reads its configuration. Blocks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from trilith.core.foreign import named_error
from trilith.errors import SetupError, TrilithError, UnknownReference
from trilith.runtime.agents.chain import run_agents
from trilith.runtime.backends import BackendKind
from trilith.runtime.changes import Standing
from trilith.runtime.devices import OPTION
from trilith.runtime.load_run import LoadRun
from trilith.runtime.naming import name_of
from trilith.runtime.overrides import Override
from trilith.runtime.repository import NO_VERSION, ModelPlan, config_file, left_out_folders, plan_model
from trilith.runtime.roots import Roots
from trilith.runtime.spec import ModelSpec
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
    *,
    renamed: bool = False,
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
        renamed: whether its configuration may say another name.

    Raises:
        UnknownReference: it is in no repository, or has no version to serve.
        SetupError: it is in two, its configuration is wrong, or a repository agent refuses it.
    """
    try:
        name, folder = name_of(key), _folder(roots, key, path, override, run)
        run.enter("reading its configuration")
        sent = override.spec_of(folder, rules.config_name) if override is not None else None
        plan = _plan(name, folder, kinds, sent, rules, renamed=renamed)
        if not plan.spec.agents:
            return plan, plan.standing()
        return _after_agents(plan, kinds, sent, rules, run, renamed=renamed)
    except TrilithError:
        raise
    except Exception as error:  # whatever lies in one model's folder, it is an error of that model
        raise SetupError(f"model '{name_of(key)}' cannot be looked at: {named_error(error)}") from error


def close_plan(found: tuple[ModelPlan, Standing]) -> None:
    """Ends what was begun for a load that nobody wants any more. Blocks."""
    plan, _ = found
    if plan.agents is not None:
        plan.agents.close()


def _folder(roots: Roots, key: str, path: Path | None, override: Override | None, run: LoadRun) -> Path:
    name = name_of(key)
    run.enter("looking for its files")
    if override is not None and override.folder is not None:
        return override.folder
    if path is not None:
        return path
    folders = roots.fetch(key, run)
    if not folders:
        raise UnknownReference(f"failed to load '{name}', no such model folder in the repositories {roots}")
    if len(folders) > 1:
        raise SetupError(
            f"model '{name}' stands in more than one repository: {_joined(folders)}; rename the folder of one, or "
            "start the server with --model-namespacing"
        )
    return folders[0]


def _after_agents(
    plan: ModelPlan,
    kinds: Mapping[str, BackendKind],
    sent: ModelSpec | None,
    rules: LoadRules,
    run: LoadRun,
    *,
    renamed: bool,
) -> tuple[ModelPlan, Standing]:
    """The plan once its agents have let it pass; of the folder that they have left."""
    chain = run_agents(plan.spec.agents, rules.agents, plan.spec.name, plan.folder, plan.said_in, run)
    try:
        if chain.folder != plan.folder:
            said = sent is not None or config_file(chain.folder, rules.config_name) is None
            spec = _plan(
                plan.spec.name, chain.folder, kinds, (sent or plan.spec) if said else None, rules, renamed=renamed
            )
            plan = spec.with_spec(replace(spec.spec, agents=plan.spec.agents))
        return replace(plan, agents=chain), plan.standing()
    except BaseException:
        chain.close()
        raise


def _plan(
    name: str,
    folder: Path,
    kinds: Mapping[str, BackendKind],
    sent: ModelSpec | None,
    rules: LoadRules,
    *,
    renamed: bool,
) -> ModelPlan:
    plan = plan_model(
        name,
        folder,
        kinds,
        sent,
        rules.config_name,
        gpu_instances_on_cpu=rules.gpu_instances_on_cpu,
        settings=rules.settings.get(name, {}),
        renamed=renamed,
    )
    for field in plan.moved:
        _log.warning("model '%s': %s asks for a GPU; it runs on a CPU, as %s says", name, field, OPTION)
    for left_out in left_out_folders(plan):
        _log.warning("model '%s': the folder %r is left out: %s", name, left_out, NO_VERSION)
    if not rules.auto_complete:
        plan = as_said(plan)
    rows = rules.backends.rows_of(plan.spec.backend)
    if rows is not None:
        plan = plan.with_spec(replace(plan.spec, default_rows=rows))
    if plan.spec.load_timeout_s is None:
        plan = plan.with_spec(replace(plan.spec, load_timeout_s=rules.timeout_s))
    return plan


def _joined(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths)) or "(none)"

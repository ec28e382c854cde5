"""What a configuration means, in words; and what is wrong with it, and how to mend it. Loads no model.

Rule: a path may be a repository, the folder of one model, or a configuration file in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from trilith.core.foreign import named_error
from trilith.errors import Bug, InvalidConfig, TrilithError, UnknownReference
from trilith.runtime.agents import checksum
from trilith.runtime.agents.chain import Agents
from trilith.runtime.backends import BackendKind, all_backends
from trilith.runtime.backends.files import what_lies_at
from trilith.runtime.backends.parameters import unknown_parameters
from trilith.runtime.devices import OPTION
from trilith.runtime.folders import find_models
from trilith.runtime.idle_fields import idle_fields
from trilith.runtime.meaning import meaning
from trilith.runtime.model_convert import said_name
from trilith.runtime.onnx_parameters import PARAMETERS, onnx_session
from trilith.runtime.repository import (
    NO_VERSION,
    PBTXT,
    YAML,
    is_version,
    left_out_folders,
    plan_model,
    read_labels,
)
from trilith.runtime.spec import ModelSpec
from trilith.runtime.warmup import check_samples


class CheckedModel(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out of one model.

    Attributes:
        name: the model's name.
        folder: where it lies.
        ok: whether it can be loaded as far as its configuration says.
        problem: what is wrong and how to mend it; "" when nothing is.
        advice: what is allowed and probably not meant.
        backend: what runs it.
        versions: that would be served.
        meaning: the configuration in words, one sentence each.
        without_effect: what the configuration says that changes nothing here, and why.
    """

    name: str
    folder: str
    ok: bool
    problem: str = ""
    advice: list[str] = []
    backend: str = ""
    versions: list[int] = []
    meaning: list[str] = []
    without_effect: list[str] = []


def check_models(
    path: Path,
    *,
    backend_directory: Path | None = None,
    repoagent_directory: Path | None = None,
    gpu_instances_on_cpu: bool = False,
) -> list[CheckedModel]:
    """Checks every model at a path, by name.

    Args:
        path: see above.
        backend_directory: a folder of further backends; see `LoadOptions`.
        repoagent_directory: a folder of repository agents; the same. They are not asked.
        gpu_instances_on_cpu: whether a model that asks for a GPU is run on a CPU.

    Raises:
        UnknownReference: there is nothing at the path.
    """
    kinds, agents = all_backends(folder=backend_directory), Agents(repoagent_directory)
    try:
        if not path.exists():
            raise UnknownReference(f"{path}: there is no such file or folder")
        if not path.is_dir() and not path.is_file():
            raise UnknownReference(
                f"{path}: is {what_lies_at(path)}; expected a repository, the folder of a model, or its configuration"
            )
        name = said_name(path)
        if path.is_file():
            path = path.parent
        if name or _is_model(path):
            return [_check(name or path.resolve().name, [path], kinds, agents, gpu_instances_on_cpu)]
    except OSError as error:
        raise UnknownReference(f"{path}: cannot be looked at: {error.filename}: {error.strerror}") from error
    if is_version(path.name):
        raise UnknownReference(f"{path}: is the folder of a version; name that of its model: {path.parent}")
    left_out: list[CheckedModel] = []
    found = find_models([path], lambda folder, why: left_out.append(_left_out(folder, why)))
    checked = [_check(name, folders, kinds, agents, gpu_instances_on_cpu) for name, folders in found.items()]
    return sorted((*checked, *left_out), key=lambda model: model.name)


def _left_out(folder: Path, why: str) -> CheckedModel:
    shown = folder.with_name(folder.name.encode(errors="backslashreplace").decode())
    return CheckedModel(name=shown.name, folder=str(shown), ok=False, problem=f"{shown}: {why}")


def _is_model(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in (PBTXT, YAML)) or any(
        is_version(child.name) and child.is_dir() for child in folder.iterdir()
    )


def _check(
    name: str, folders: list[Path], kinds: Mapping[str, BackendKind], agents: Agents, gpu_instances_on_cpu: bool
) -> CheckedModel:
    folder = folders[0]
    try:
        plan = plan_model(name, folder, kinds, gpu_instances_on_cpu=gpu_instances_on_cpu)
        agents.check(plan.spec.agents, plan.said_in)
        for agent in plan.spec.agents:
            if agent.name == checksum.NAME:
                checksum.verify(folder, agent.parameters, lambda: None)
        read_labels(folder, plan.spec)
        missing = [file.path for file in plan.files if file.path is not None and not file.path.exists()]
        if missing and missing[0].is_symlink():
            raise UnknownReference(f"{missing[0]}: is {what_lies_at(missing[0])}; put the model there")
        if missing:
            raise UnknownReference(f"{missing[0]}: there is no such file; put the model there, or say `filename`")
        closed = [file.path for file in plan.files if file.path is not None and not os.access(file.path, os.R_OK)]
        if closed:
            raise UnknownReference(f"{closed[0]}: may not be read by who runs this; change its permissions")
        plan.standing()
        check_samples(plan.spec, folder)
        if plan.kind.check is not None:
            for file in plan.files:
                plan.kind.check(file)
    except TrilithError as error:
        return CheckedModel(name=name, folder=str(folder), ok=False, problem=error.message)
    except OSError as error:
        problem = f"{folder}: cannot be looked at: {error.filename}: {error.strerror}"
        return CheckedModel(name=name, folder=str(folder), ok=False, problem=problem)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one model, the others are checked
        problem = f"{folder}: {Bug(f'it cannot be checked: {named_error(error)}; please report this').message}"
        return CheckedModel(name=name, folder=str(folder), ok=False, problem=problem)
    return CheckedModel(
        name=name,
        folder=str(folder),
        ok=True,
        advice=[
            *(
                f"the folder {name!r} holds a model file and is left out: {NO_VERSION}"
                for name in left_out_folders(plan)
            ),
            *_advice(plan.spec),
        ],
        backend=plan.spec.backend,
        versions=[file.version for file in plan.files],
        meaning=list(meaning(plan)),
        without_effect=[
            *(f"{field} has no effect: it runs on a CPU, as {OPTION} says" for field in plan.moved),
            *_without_effect(plan.spec),
            *_meant_for_session(plan.spec),
        ],
    )


def _without_effect(spec: ModelSpec) -> Iterator[str]:
    for field, why in idle_fields(spec.kept, tuple(group.kept for group in spec.instances.groups)):
        yield f"{field} has no effect on a CPU: {why}"
    if spec.graph_level and spec.backend != "onnxruntime":
        yield f"optimization.graph.level has no effect: it means nothing to the backend {spec.backend}"
    for key, meant in unknown_parameters(spec.backend, spec.parameters):
        if not meant and spec.backend != "python":  # there they are the model's own
            yield f"parameters.{key} has no effect: the backend {spec.backend} does not know it; clients can read it"


def _meant_for_session(spec: ModelSpec) -> Iterator[str]:
    """Parameters of Triton's that `model.yaml` says by other keys: there they would change nothing, unnoticed."""
    keys = [key for key in PARAMETERS if key in spec.parameters] if spec.backend == "onnxruntime" else []
    try:
        heard = not keys or onnx_session(spec.parameters, spec.graph_level) == spec.session
    except InvalidConfig:
        heard = False  # nobody has looked at the value yet
    if not heard:
        yield from (f"parameters.{key} has no effect in {YAML}: say it by a key of `session`" for key in keys)


def _advice(spec: ModelSpec) -> Iterator[str]:
    for key, meant in unknown_parameters(spec.backend, spec.parameters):
        if meant:
            yield f"parameters.{key} means nothing to the backend {spec.backend}; did you mean '{meant}'?"
    declared = [tensor for tensor in (*spec.inputs, *spec.outputs) if tensor.dims is not None]
    begun = [tensor.dims for tensor in declared if tensor.dims and tensor.dims[0] == -1]
    # A single -1 is usual: any number of texts, or of samples.
    if spec.max_batch_size and begun and len(begun) == len(declared) and max(map(len, begun)) > 1:
        names = ", ".join(tensor.name for tensor in declared)
        yield (
            f"dims of {names} begin with -1 although max_batch_size is {spec.max_batch_size}: the batch dimension is "
            "added by itself; if the -1 stands for it, remove it from dims"
        )
    if spec.max_batch_size and not spec.queue.batching:
        yield (
            f"max_batch_size is {spec.max_batch_size} but requests are not joined: say `dynamic_batching {{ }}` in "
            f"{PBTXT} or `batching: true` in {YAML} to join them"
        )

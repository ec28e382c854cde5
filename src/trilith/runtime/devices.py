"""Instances that ask for a GPU, where models run on CPUs.

Rule: nobody who asked for a GPU gets a CPU in silence. It is refused, as Triton refuses it on a machine without one,
unless whoever runs the server has said that it may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from trilith.errors import InvalidConfig
from trilith.runtime.spec import ModelSpec

_GPU: Final = "KIND_GPU"
OPTION: Final = "--gpu-instances-on-cpu"


def on_cpus(spec: ModelSpec) -> ModelSpec:
    """The specification with all instances on CPUs, whatever it asks for."""
    if not any(group.asks_for_gpu for group in spec.instances.groups):
        return spec
    groups = tuple(
        replace(group, kind="KIND_CPU", gpus=()) if group.asks_for_gpu else group for group in spec.instances.groups
    )
    return replace(spec, instances=replace(spec.instances, groups=groups))


def refuse_gpus(spec: ModelSpec, said_in: str) -> None:
    """Sees that no instance asks for a GPU.

    Args:
        spec: the model's.
        said_in: where its configuration stands, for the message.

    Raises:
        InvalidConfig: one does; the message names the field.
    """
    found = list(gpu_fields(spec))
    if found:
        raise InvalidConfig(
            f"{said_in}: {found[0]} asks for a GPU, and Trilith runs models on the CPUs of its machine, and does not "
            f"do so in silence: say `instance_group [{{ kind: KIND_CPU }}]`, or start the server with {OPTION}"
        )


def gpu_fields(spec: ModelSpec) -> Iterator[str]:
    """What asks for a GPU, one field of each group: `instance_group[0].kind: KIND_GPU`."""
    for at, group in enumerate(spec.instances.groups):
        if group.asks_for_gpu:
            said = f"kind: {group.kind}" if group.kind == _GPU else f"gpus: {list(group.gpus)}"
            yield f"instance_group[{at}].{said}"

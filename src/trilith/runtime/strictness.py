"""Configurations that must say everything: what `--disable-auto-complete-config` means.

Rule: nothing is taken from the model's file or asked of its code. What the configuration leaves out is an error that
    names every missing field; a batch size that it leaves out is none, as in Triton.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig
from trilith.runtime.repository import SENT, ModelPlan

OPTION: Final = "--disable-auto-complete-config"


def as_said(plan: ModelPlan) -> ModelPlan:
    """The plan by what its configuration says alone.

    Raises:
        InvalidConfig: it leaves something out.
    """
    spec = plan.spec
    if plan.said_in != SENT and not Path(plan.said_in).is_file():
        raise InvalidConfig(
            f"model '{spec.name}': {plan.folder}: must hold a config.pbtxt or model.yaml, as the server was started "
            f"with {OPTION}"
        )
    missing = list(_missing(plan))
    if missing:
        raise InvalidConfig(
            f"{plan.said_in}: {'; '.join(missing)}: must be specified, as the server was started with {OPTION}"
        )
    return plan.with_spec(replace(spec, max_batch_size=spec.max_batch_size or 0, completes=False))


def _missing(plan: ModelPlan) -> Iterator[str]:
    by_code = plan.spec.backend == "python" or plan.kind.script is not None  # which may take no input
    many = "s" if plan.said_in.endswith((".yaml", ".yml")) else ""
    type_field = "datatype" if many else "data_type"
    for role, tensors in ((f"input{many}", plan.spec.inputs), (f"output{many}", plan.spec.outputs)):
        if not tensors and not (role.startswith("input") and by_code):
            yield role
        for tensor in tensors:
            if tensor.datatype is None:
                yield f"{role} '{tensor.name}': {type_field}"
            if tensor.dims is None:
                yield f"{role} '{tensor.name}': dims"

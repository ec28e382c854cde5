"""Fields of Triton's `ModelConfig` that stand before what a `model.yaml` says.

A `model.yaml` says things for which `ModelConfig` has no field (time limits, padding, sources, sessions). They stay, so
the replacement is one of specifications and not of texts.

Rule: what the fields say replaces exactly what the same keys of `model.yaml` say.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import fields, replace
from typing import Any, Final

from trilith.runtime.onnx_parameters import onnx_session
from trilith.runtime.spec import ModelSpec, SessionConfig

PLACES: Final[dict[str, tuple[str, ...]]] = {
    "name": (),  # it is that of the folder, in both
    "backend": ("backend", "platform"),
    "platform": ("backend", "platform"),
    "runtime": ("runtime",),
    "max_batch_size": ("max_batch_size",),
    "input": ("inputs",),
    "output": ("outputs", "reductions"),
    "batch_input": ("batch_inputs",),
    "batch_output": ("batch_outputs",),
    "instance_group": ("instances",),
    "dynamic_batching": ("queue",),
    "version_policy": ("versions",),
    "default_model_filename": ("filename",),
    "optimization": ("graph_level",),
    "model_warmup": ("warmup",),
    "parameters": ("parameters",),
    "metric_tags": ("metric_tags",),
    "model_repository_agents": ("agents",),
}
"""Where in a specification a field stands; those that are not named have no effect and are in `kept` all together."""


def replaced(own: ModelSpec, sent: ModelSpec, said: Set[str]) -> ModelSpec:
    """The specification `own` of a `model.yaml`, in which the fields `said` are those of `sent`.

    Args:
        own: what the model's own configuration says.
        sent: what the fields say, as if they stood alone.
        said: the names of the fields.

    Raises:
        InvalidConfig: a parameter of the session is wrong.
    """
    changes: dict[str, Any] = {place: getattr(sent, place) for field in said for place in PLACES.get(field, ())}
    if "instances" in changes:
        changes["instances"] = replace(sent.instances, share=own.instances.share)
    if "queue" in changes:
        changes["queue"] = replace(sent.queue, timeout_s=own.queue.timeout_s, max_queue_rows=own.queue.max_queue_rows)
    if sent.kept:
        changes["kept"] = sent.kept
    spec = replace(own, **changes)
    if said & {"parameters", "optimization"} and spec.backend in ("", "onnxruntime"):
        spec = replace(spec, session=_session(own.session, onnx_session(sent.parameters, sent.graph_level)))
    return spec


def _session(own: SessionConfig, sent: SessionConfig) -> SessionConfig:
    """The session with what was sent of it."""
    usual = SessionConfig()
    changed = {field.name: getattr(sent, field.name) for field in fields(sent)}
    return replace(own, **{name: value for name, value in changed.items() if value != getattr(usual, name)})

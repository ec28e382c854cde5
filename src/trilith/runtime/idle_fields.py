"""Fields of Triton's `ModelConfig` that change nothing here: accepted, told to clients as they are, named by `check`.

Rule 1: such a field means nothing on a CPU, or is of a feature that Triton itself leaves off unless its server is told.
Rule 2: none is ignored in silence: each has a reason, which `trilith models check` gives.
Rule 3: what cannot be served is no such field; see `model_fields`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from trilith.errors import InvalidConfig
from trilith.wire.oip_messages import model_config_messages

_ON_GPUS: Final = "it is about GPUs"
_BUFFERS: Final = "tensors are not moved between devices"
_OFF: Final = "as in Triton, unless its server is started with one"
_ACCELERATORS: Final = "optimization.execution_accelerators"
_INSTANCES: Final = "instance_group."
FIRST_RESPONSE: Final = "nv_inference_first_response_histogram_ms"
_MOST_BUCKETS: Final = 256
IDLE: Final[Mapping[str, str]] = {
    "cc_model_filenames": "it names files by the compute capability of GPUs",
    "model_metrics": f"only the buckets of {FIRST_RESPONSE} can be chosen",
    "response_cache": f"there is no response cache, {_OFF}",
    "optimization.priority": _ON_GPUS,
    "optimization.cuda": _ON_GPUS,
    f"{_ACCELERATORS}.gpu_execution_accelerator": _ON_GPUS,
    f"{_ACCELERATORS}.cpu_execution_accelerator": (
        'the backend runs the model by its own means; an ONNX model runs on OpenVINO with backend: "openvino"'
    ),
    "optimization.input_pinned_memory": _BUFFERS,
    "optimization.output_pinned_memory": _BUFFERS,
    "optimization.gather_kernel_buffer_threshold": _BUFFERS,
    "optimization.eager_batching": _BUFFERS,
    f"{_INSTANCES}rate_limiter": f"there is no rate limiter, {_OFF}",
    f"{_INSTANCES}host_policy": f"there are no host policies, {_OFF}",
    f"{_INSTANCES}profile": _ON_GPUS,
    f"{_INSTANCES}secondary_devices": _ON_GPUS,
}
"""Why each has no effect."""


def kept_fields(config: Any) -> bytes:
    """The message that has these fields alone, as octets; those of single instance groups are left out."""
    kept = model_config_messages().ModelConfig()
    for path in IDLE:
        if not path.startswith(_INSTANCES):
            _copy(config, kept, path)
    return bytes(kept.SerializeToString(deterministic=True))


def kept_group_fields(group: Any) -> bytes:
    """The same of one instance group."""
    kept = model_config_messages().ModelInstanceGroup()
    for path in IDLE:
        if path.startswith(_INSTANCES):
            _copy(group, kept, path.removeprefix(_INSTANCES))
    return bytes(kept.SerializeToString(deterministic=True))


def idle_fields(kept: bytes, groups: tuple[bytes, ...]) -> Iterator[tuple[str, str]]:
    """Which of these fields were kept, and why they have no effect."""
    messages = model_config_messages()
    whole = messages.ModelConfig.FromString(kept)
    for group in groups:
        whole.instance_group.add().MergeFromString(group)
    for path, why in IDLE.items():
        if path == "model_metrics" and all(family == FIRST_RESPONSE for family, _ in _chosen_buckets(whole)):
            continue
        if any(_there(message, path.removeprefix(_INSTANCES)) for message in _holders(whole, path)):
            yield path, why


def first_response_bounds(kept: bytes) -> tuple[float, ...]:
    """The buckets that `model_metrics` chooses for the time to the first response, in milliseconds; empty for none.

    Raises:
        InvalidConfig: they do not ascend, or are too many.
    """
    chosen: tuple[float, ...] = ()
    for at, (family, bounds) in enumerate(_chosen_buckets(model_config_messages().ModelConfig.FromString(kept))):
        where = f"model_metrics.metric_control[{at}].histogram_options.buckets"
        if len(bounds) > _MOST_BUCKETS or any(not 0 <= bound < math.inf for bound in bounds):
            raise InvalidConfig(
                f"{where}: must be at most {_MOST_BUCKETS} finite numbers >= 0, got {list(bounds)!s:.200}"
            )
        if list(bounds) != sorted(set(bounds)):
            raise InvalidConfig(f"{where}: must ascend, got {list(bounds)!s:.200}")
        if family == FIRST_RESPONSE:
            chosen = bounds or chosen
    return chosen


def _chosen_buckets(config: Any) -> Iterator[tuple[str, tuple[float, ...]]]:
    if hasattr(config, "model_metrics"):  # not in older messages
        for control in config.model_metrics.metric_control:
            yield control.metric_identifier.family, tuple(control.histogram_options.buckets)


def _holders(whole: Any, path: str) -> list[Message]:
    return list(whole.instance_group) if path.startswith(_INSTANCES) else [whole]


def _there(message: Message, path: str) -> bool:
    name, _, rest = path.partition(".")
    found = {field.name: value for field, value in message.ListFields()}
    return name in found and (not rest or _there(found[name], rest))


def _copy(source: Any, target: Any, path: str) -> None:
    if not _there(source, path):
        return
    name, _, rest = path.partition(".")
    value = getattr(source, name)
    if rest:
        _copy(value, getattr(target, name), rest)
    elif hasattr(value, "MergeFrom"):
        getattr(target, name).MergeFrom(value)
        if isinstance(value, Message):
            getattr(target, name).SetInParent()
    else:
        setattr(target, name, value)

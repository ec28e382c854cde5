"""What the protocol says of the server and its models, as plain values that both HTTP and gRPC send.

Field names are those of the protobuf messages, so that one builder serves both.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from trilith.core.tensor import TensorSpec
from trilith.errors import CapacityError, InvalidInput, NoReadyReplica, TrilithError, UnknownModel
from trilith.runtime.statistics import Duration, ModelStatistics

if TYPE_CHECKING:
    from trilith.runtime.protocol.port import ModelPort, RuntimePort

EXTENSIONS: Final = (
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "model_repository(unload_dependents)",
    "parameters",
    "schedule_policy",
    "statistics",
)
"""The protocol extensions that are offered."""


def server_metadata(name: str) -> dict[str, Any]:
    """Name, version and extensions."""
    return {"name": name, "version": _version(), "extensions": list(EXTENSIONS)}


def ready_model(runtime: RuntimePort, name: str, version: str) -> ModelPort:
    """A model version that takes requests.

    Raises:
        UnknownModel: there is no such model or version.
        NoReadyReplica: there is, and it is not ready.
    """
    return _checked(runtime.model(name, version), name)


def serving_model(runtime: RuntimePort, name: str, version: str) -> ModelPort:
    """A model version that takes requests, or will again in a moment. Raises as `ready_model`."""
    model = runtime.model(name, version)
    return model if model.recovering else _checked(model, name)


def _checked(model: ModelPort, name: str) -> ModelPort:
    if model.unloaded:
        raise UnknownModel(f"Request for unknown model: '{name}' has no available versions: it was unloaded")
    if not is_ready(model):
        which = f"'{name}' version {model.version}" if model.version else f"'{name}'"
        why = f": {model.public_reason}" if model.public_reason else ""
        raise NoReadyReplica(f"{which} is not at ready state: it is {model.state}{why}")
    return model


def model_metadata(model: ModelPort) -> dict[str, Any]:
    """Name, versions, platform, inputs and outputs."""
    return {
        "name": model.name,
        "versions": list(model.versions),
        "platform": model.platform or model.backend,
        "inputs": _tensors(model.inputs),
        "outputs": _tensors(model.outputs),
    }


async def takes_requests(runtime: RuntimePort, name: str, version: str) -> bool:
    """Whether a model version is ready and says so, or whoever asks for it gets it in a while; see `is_obtainable`."""
    try:
        model = runtime.model(name, version)
    except InvalidInput:  # the name stands for several
        return False
    except UnknownModel:
        try:
            return await runtime.obtainable(name)
        except CapacityError:  # nobody says whether there is such a model
            return False
    return await model.says_ready() or is_obtainable(runtime, model)


async def present(runtime: RuntimePort, name: str) -> None:
    """Waits until a model that is absent is there.

    Raises:
        TrilithError: it cannot be loaded, or not in time.
    """
    told: asyncio.Future[TrilithError | None] = asyncio.get_running_loop().create_future()
    waiter = runtime.want(name, lambda error: None if told.done() else told.set_result(error))
    try:
        error = await told
    finally:
        if waiter is not None:
            waiter.cancel()
    if error is not None:
        raise error


def is_ready(model: ModelPort) -> bool:
    """Whether the model version takes requests."""
    return model.state == "READY"


def is_obtainable(runtime: RuntimePort, model: ModelPort) -> bool:
    """Whether the model version is not in memory and loaded when somebody wants it: while it comes and goes, too."""
    return (model.unloaded or model.state in ("LOADING", "UNLOADING")) and runtime.absent(model.name)


def statistics(runtime: RuntimePort, name: str | None = None, version: str = "") -> dict[str, Any]:
    """The statistics extension's answer for one or all models; `version` "" for all versions."""
    return {
        "model_stats": [
            _model_statistics(found)
            for found in runtime.statistics(name)
            if not version or str(found.version) == version
        ]
    }


def config(message: Any) -> dict[str, Any]:
    """A protobuf message as Triton prints its model configuration: all defaults, enum names, 64-bit numbers as numbers.

    Sub-messages that are not set are left out.
    """
    from google.protobuf.descriptor import FieldDescriptor

    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        is_message = field.type == FieldDescriptor.TYPE_MESSAGE
        value = getattr(message, field.name)
        if is_message and field.message_type.GetOptions().map_entry:
            values[field.name] = _config_map(value, field)
        elif field.is_repeated:
            values[field.name] = [_config_value(element, field) for element in value]
        elif not (is_message or field.containing_oneof) or message.HasField(field.name):
            values[field.name] = _config_value(value, field)
    return values


def _config_map(value: Mapping[Any, Any], field: Any) -> dict[str, Any]:
    of_value = field.message_type.fields_by_name["value"]
    return {str(key): _config_value(element, of_value) for key, element in value.items()}


def _config_value(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return config(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@functools.cache
def _version() -> str:
    return importlib.metadata.version("trilith")


def _model_statistics(found: ModelStatistics) -> dict[str, Any]:
    never = {"count": 0, "ns": 0}
    return {
        "name": found.name,
        "version": str(found.version),
        "last_inference": found.last_inference_ms,
        "inference_count": found.inference_count,
        "execution_count": found.execution_count,
        "inference_stats": {
            "success": _duration(found.success),
            "fail": _duration(found.fail),
            "queue": _duration(found.queue),
            "compute_input": _duration(found.compute_input),
            "compute_infer": _duration(found.compute_infer),
            "compute_output": _duration(found.compute_output),
            "cache_hit": never,
            "cache_miss": never,
        },
        "batch_stats": [
            {
                "batch_size": batch.batch_size,
                "compute_input": _duration(batch.compute_input),
                "compute_infer": _duration(batch.compute_infer),
                "compute_output": _duration(batch.compute_output),
            }
            for batch in found.batches
        ],
        "memory_usage": [],
        "response_stats": {},
    }


def _duration(duration: Duration) -> dict[str, int]:
    return {"count": duration.count, "ns": duration.ns}


def _tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
    return [{"name": spec.name, "datatype": str(spec.datatype), "shape": list(spec.shape)} for spec in specs]

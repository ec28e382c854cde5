"""The configuration of a Python model, as the model reads it (JSON) and as it completes it (`auto_complete_config`).

Rule 1: what the model reads is Triton's configuration message with every field, its 64-bit numbers as numbers.
Rule 2: what the configuration file says stays; the model fills in what it leaves open. After that every input and
    output must have a datatype and a shape, because nothing else could tell them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from google.protobuf.message import Message

from trilith.core.model import ModelSignature
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig
from trilith.runtime.spec import DeclaredTensor, ModelSpec, QueueConfig
from trilith.wire.oip_messages import model_config_messages


def config_json(spec: ModelSpec) -> str:
    """The configuration as JSON. Inputs and outputs are those that are declared."""
    from trilith.runtime.handle import ModelHandle
    from trilith.runtime.model_proto import fill_reshape

    handle = ModelHandle(spec, "", [], filename="model.py")
    handle.max_batch_size = spec.max_batch_size or 0
    message = handle.config_proto()
    enums = model_config_messages()
    for declared, entries in ((spec.inputs, message.input), (spec.outputs, message.output)):
        for tensor in declared:
            entry = entries.add(name=tensor.name, dims=tensor.dims or ())
            entry.data_type = enums.DataType.Value(_type_name(tensor.datatype))
            fill_reshape(entry, tensor)
            if hasattr(entry, "format"):
                entry.format = enums.ModelInput.Format.Value(tensor.format or "FORMAT_NONE")
                entry.optional = tensor.optional
                entry.allow_ragged_batch = tensor.ragged
            else:
                entry.label_filename = tensor.label_filename
    if not spec.queue.batching or (spec.max_batch_size is None and spec.queue == QueueConfig()):
        message.ClearField("dynamic_batching")
    return json.dumps(_as_dict(message))


def completed_spec(spec: ModelSpec, text: str) -> ModelSpec:
    """The specification with what the model's completed configuration says.

    Args:
        spec: as it was configured.
        text: the completed configuration as JSON; "" when the model has no say.

    Raises:
        InvalidConfig: a tensor lacks its datatype or shape, or the model wants what is not offered.
    """
    config: dict[str, Any] = json.loads(text or config_json(spec))
    if config.get("model_transaction_policy", {}).get("decoupled"):
        raise InvalidConfig(
            f"model '{spec.name}': model_transaction_policy.decoupled: decoupled models are not served yet"
        )
    known = {tensor.name: tensor for tensor in (*spec.inputs, *spec.outputs)}
    size = config.get("max_batch_size", 0)
    if type(size) is not int or size < 0:
        raise InvalidConfig(f"model '{spec.name}': max_batch_size: must be an integer >= 0, got {size!r}")
    outputs = tuple(_declared(spec, "output", known, entry) for entry in config.get("output", []))
    if not outputs:
        raise InvalidConfig(
            f"model '{spec.name}': must specify at least one output, in its configuration or by "
            "`auto_complete_config` with `add_output`"
        )
    return replace(
        spec,
        max_batch_size=size,
        inputs=tuple(_declared(spec, "input", known, entry) for entry in config.get("input", [])),
        outputs=outputs,
        queue=replace(spec.queue, batching="dynamic_batching" in config),
    )


def signature_of(spec: ModelSpec) -> ModelSignature:
    """What a completed configuration declares, as a model's signature."""
    return ModelSignature(
        inputs=tuple(_tensor(tensor, spec) for tensor in spec.inputs),
        outputs=tuple(_tensor(tensor, spec) for tensor in spec.outputs),
    )


def _tensor(tensor: DeclaredTensor, spec: ModelSpec) -> TensorSpec:
    dims = tensor.model_dims or ()
    return TensorSpec(
        name=tensor.name,
        datatype=tensor.datatype or DataType.FP32,
        shape=(-1, *dims) if spec.max_batch_size else dims,
    )


def _declared(
    spec: ModelSpec, role: str, known: Mapping[str, DeclaredTensor], entry: Mapping[str, Any]
) -> DeclaredTensor:
    name = str(entry.get("name", ""))
    where = f"model '{spec.name}': {role} '{name}'"
    tensor = known.get(name, DeclaredTensor(name=name))
    word = str(entry.get("data_type", "TYPE_INVALID")).removeprefix("TYPE_")
    if word == "INVALID":
        raise InvalidConfig(f"{where}: data_type: must be specified for a Python model")
    try:
        datatype = DataType.BYTES if word == "STRING" else DataType(word)
    except ValueError:
        raise InvalidConfig(f"{where}: data_type: there is no TYPE_{word}") from None
    dims = entry.get("dims") or ()
    if not dims:
        raise InvalidConfig(f"{where}: dims: must be specified for a Python model")
    if any(type(size) is not int or size < -1 or size == 0 for size in dims):
        raise InvalidConfig(f"{where}: dims: each must be >= 1, or -1 for any size; got {list(dims)}")
    optional = tensor.optional or bool(entry.get("optional", False))
    return replace(tensor, datatype=datatype, dims=tuple(dims), optional=optional)


def _type_name(datatype: DataType | None) -> str:
    if datatype is None:
        return "TYPE_INVALID"
    return f"TYPE_{'STRING' if datatype is DataType.BYTES else datatype}"


def _as_dict(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            continue
        found[field.name] = _plain(value, field.enum_type)
    return found


def _plain(value: Any, enum: Any) -> Any:
    if isinstance(value, Message):
        return _as_dict(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, int) and not isinstance(value, bool) and enum is not None:
        return enum.values_by_number[value].name
    if isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "items"):
        return {str(key): _plain(entry, None) for key, entry in value.items()}
    return [_plain(entry, enum) for entry in value]

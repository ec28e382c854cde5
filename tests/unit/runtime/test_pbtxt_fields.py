"""Every field of Triton's `ModelConfig`: what is set comes back in the model's own configuration, or is refused."""

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor

from trilith.errors import InvalidConfig
from trilith.runtime import ModelFile, ModelHandle
from trilith.runtime.backends.identity import IdentityBackend
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.served import batching_config
from trilith.runtime.signature import complete
from trilith.wire.oip_messages import model_config_messages

BASE = """
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }
"""
# Where any number or text will not do: what the rest of BASE, or the protocol, allows.
VALUES = {
    "name": ["m"],
    "backend": ["identity", "onnxruntime"],
    "platform": ["onnxruntime_onnx"],
    "max_batch_size": [3],
    "input.data_type": ["TYPE_INT8"],
    "output.data_type": ["TYPE_INT8"],
    "batch_input.source_input": ["x"],
    "batch_output.source_input": ["x"],
    "dynamic_batching.preferred_batch_size": [2],
    "input.reshape.shape": [4],
    "output.reshape.shape": [4],
    "parameters": ["intra_op_thread_count"],
}
MADE = 'batch_input { target_name: "t" source_input: "x" }'
APART = 'batch_output { target_name: "y" source_input: "x" }'
# A field that means something only beside another.
BESIDE = {
    "batch_input.kind": MADE,
    "batch_input.target_name": MADE,
    "batch_input.data_type": MADE,
    "batch_input.source_input": MADE,
    "batch_output.kind": APART,
    "batch_output.target_name": APART,
    "batch_output.source_input": APART,
    "dynamic_batching.default_priority_level": "dynamic_batching { priority_levels: 7 }",
    "model_repository_agents.agents.parameters": 'model_repository_agents { agents { name: "checksum" } }',
    "dynamic_batching.priority_levels": "dynamic_batching { default_priority_level: 1 }",
}


def _is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _leaves(descriptor, path=()):
    """The paths of all fields that hold a value, and of the messages that have no field."""
    for field in descriptor.fields:
        here = (*path, field)
        if field.type != FieldDescriptor.TYPE_MESSAGE or _is_map(field) or not field.message_type.fields:
            yield here
        else:
            yield from _leaves(field.message_type, here)


def _values(path):
    name = ".".join(field.name for field in path)
    if name in VALUES:
        return VALUES[name]
    field = path[-1]
    if field.enum_type is not None:
        return [value.name for value in field.enum_type.values if value.number]
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return [None]
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        return ["some.txt"]
    return [True] if field.type == FieldDescriptor.TYPE_BOOL else [1]


CASES = [
    pytest.param(backend, path, value, id=f"{backend}-{'.'.join(field.name for field in path)}-{value}")
    for backend in ("identity", "onnxruntime")
    for path in _leaves(model_config_messages().ModelConfig.DESCRIPTOR)
    for value in _values(path)
]


def _set(message, path, value):
    field, *rest = path
    if rest:
        inner = getattr(message, field.name)
        if field.is_repeated:
            inner = inner[0] if inner else inner.add()
        inner.SetInParent()
        _set(inner, rest, value)
    elif _is_map(field):
        key = value if isinstance(value, str) and value != "some.txt" else "key"
        _set_map(getattr(message, field.name), field, key)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        getattr(message, field.name).add() if field.is_repeated else getattr(message, field.name).SetInParent()
    else:
        value = field.enum_type.values_by_name[value].number if field.enum_type is not None else value
        value = value.encode() if field.type == FieldDescriptor.TYPE_BYTES else value
        if field.is_repeated:
            del getattr(message, field.name)[:]
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _set_map(entries, field, key):
    of_value = field.message_type.fields_by_name["value"]
    if field.message_type.fields_by_name["key"].type != FieldDescriptor.TYPE_STRING:
        key = 1
    if of_value.type != FieldDescriptor.TYPE_MESSAGE:
        entries[key] = "1" if of_value.type == FieldDescriptor.TYPE_STRING else 1
    elif "string_value" in of_value.message_type.fields_by_name:
        entries[key].string_value = "1"
    else:
        entries[key].SetInParent()


def _read(message, path):
    field, *rest = path
    value = getattr(message, field.name)
    if rest:
        return _read(value[0] if field.is_repeated else value, rest)
    if _is_map(field):
        return {key: str(entry) for key, entry in value.items()}
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return message.HasField(field.name)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return list(value) if field.is_repeated else value


def _reported(text):
    """The configuration that clients are told of a model with this `config.pbtxt`."""
    spec = parse_model_pbtxt(text, "m", source="m/config.pbtxt")
    handle = ModelHandle(spec, "1", [], platform="onnxruntime_onnx" if spec.backend == "onnxruntime" else "")
    signature = IdentityBackend(ModelFile(model="m", version=1, path=None, spec=spec)).load()
    offer = complete(spec, signature)
    batching_config(spec, offer)
    handle.inputs, handle.outputs, handle.max_batch_size = offer.inputs, offer.outputs, offer.max_batch_size
    return handle.config_proto()


def _refusal(text):
    """The field that the refusal of such a file names, or None."""
    try:
        _reported(text)
    except InvalidConfig as error:
        return error.message.replace("[0]", "").removeprefix("m/config.pbtxt: ").split(":")[0]
    return None


@pytest.mark.parametrize(("backend", "path", "value"), CASES)
def test_a_field_is_reflected_or_refused_by_name(backend, path, value):
    name = ".".join(field.name for field in path)
    config = text_format.Parse(BASE + BESIDE.get(name, ""), model_config_messages().ModelConfig())
    config.backend = backend
    _set(config, path, value)
    text = text_format.MessageToString(config)
    refused = _refusal(text)
    if refused is None:
        assert _read(_reported(text), path) == _read(config, path)
    else:
        # A message is refused by its own name, or by that of the field in it; an entry of a map by its key.
        assert name == refused or name.startswith(f"{refused}.") or refused.startswith(f"{name}.")


def test_the_walk_finds_the_deep_fields():
    names = {".".join(field.name for field in case.values[1]) for case in CASES}
    assert "dynamic_batching.default_queue_policy.allow_timeout_override" in names
    assert "sequence_batching.oldest.max_candidate_sequences" in names
    assert len(names) > 80


def test_what_is_left_out_comes_back_as_it_is_meant():
    reported = _reported(BASE + 'backend: "identity" instance_group [ { count: 2 }, { name: "second" } ]')
    assert [(group.name, group.count) for group in reported.instance_group] == [("m_0", 2), ("second", 1)]
    assert not reported.HasField("dynamic_batching")
    reported = _reported(BASE + 'backend: "identity" dynamic_batching { }')
    batching = reported.dynamic_batching
    assert (batching.priority_levels, batching.default_priority_level) == (0, 0)
    assert not batching.HasField("default_queue_policy")
    policy = "dynamic_batching { default_queue_policy { max_queue_size: 3 } }"
    reported = _reported(BASE.replace("max_batch_size: 8", "max_batch_size: 0") + f'backend: "identity" {policy}')
    assert reported.dynamic_batching.default_queue_policy.max_queue_size == 3
    assert not reported.dynamic_batching.default_queue_policy.allow_timeout_override
    assert not reported.dynamic_batching.preferred_batch_size

"""Configurations of Triton's made at random from its message, field by field: read, converted, told and completed.

Damage (see `test_damaged_inputs`) leaves few configurations that are one; here about half are accepted. Whatever is
made, it is refused in our words, or every way on from it works and means the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from pathlib import Path

import pytest
from google.protobuf import json_format, text_format
from google.protobuf.descriptor import FieldDescriptor

from trilith.config import parse_yaml
from trilith.errors import InvalidConfig, TrilithError
from trilith.runtime import ModelFile, ModelHandle
from trilith.runtime.backends.identity import IdentityBackend
from trilith.runtime.backends.python.completion import completed_spec, config_json
from trilith.runtime.batching import batching_config
from trilith.runtime.devices import on_cpus
from trilith.runtime.model_convert import pbtxt_to_yaml, yaml_to_pbtxt
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.overrides import Override
from trilith.runtime.signature import complete
from trilith.wire.oip_messages import model_config_messages

MADE = 500
MADE_IN_FULL = 100_000
CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"
NAMES = ("", "x", "y", "m", "é", "a b", "\0", "..", "a/b", "x" * 50)
WORDS = ("model.py", "a.onnx", "identity", "python", "onnxruntime", "libtriton_identity.so", "1", "true", "cpu:0")
KEYS = ("intra_op_thread_count", "reason", "team")
EDGES = (-(1 << 31), -2, -1, 0, 1, 2, 7, 8, 255, 256, 257, (1 << 31) - 1)
FAR = (*EDGES, 1 << 32, 1 << 53, (1 << 63) - 1, -(1 << 63))
NOT_SERVED = ("ensemble_scheduling", "sequence_batching", "model_operations")


def value_of(field, dice):
    """A value of a field that holds one."""
    if field.enum_type is not None:
        return dice.choice([value.number for value in field.enum_type.values] + [99] * (dice.random() < 0.02))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return dice.random() < 0.6
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
        text = dice.choice((*NAMES, *WORDS, *KEYS))
        return text if field.type == FieldDescriptor.TYPE_STRING else text.encode()
    if field.type == FieldDescriptor.TYPE_INT32:
        return dice.choice(EDGES)
    if field.type == FieldDescriptor.TYPE_UINT32:
        return abs(dice.choice(EDGES))
    if field.type == FieldDescriptor.TYPE_INT64:
        return dice.choice(FAR) if dice.random() < 0.2 else dice.choice((-1, 1, 2, 4, 8))
    if field.type == FieldDescriptor.TYPE_UINT64:
        return abs(dice.choice(FAR)) if dice.random() < 0.3 else dice.choice((0, 1, 5, 100))
    return dice.choice((0.0, 1.0, -1.0, 1e300))


def fill(message, dice, rate):
    """Sets some of the fields of a message, and of those in it."""
    for field in message.DESCRIPTOR.fields:
        if dice.random() > rate:
            continue
        held = getattr(message, field.name)
        if field.message_type is None:
            if field.is_repeated:
                held.extend(value_of(field, dice) for _ in range(dice.randint(0, 3)))
            else:
                setattr(message, field.name, value_of(field, dice))
        elif field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(dice.randint(0, 2)):
                if value.message_type is not None:
                    fill(held[value_of(key, dice)], dice, 0.6)
                else:
                    held[value_of(key, dice)] = value_of(value, dice)
        elif field.is_repeated:
            for _ in range(dice.randint(0, 2)):
                fill(held.add(), dice, 0.6)
        else:
            held.SetInParent()
            fill(held, dice, 0.5)


def made(dice):
    """A configuration; most of them say nothing that is refused wherever it is said."""
    config = model_config_messages().ModelConfig()
    fill(config, dice, dice.choice((0.05, 0.15, 0.3)))
    if dice.random() < 0.9:
        config.name = "m"
        for name in (*NOT_SERVED, "model_transaction_policy"):
            config.ClearField(name)
        for tensor in (*config.input, *config.output):
            for name in ("is_shape_tensor", "is_non_linear_format_io", *(["reshape"] if dice.random() < 0.7 else [])):
                if name in tensor.DESCRIPTOR.fields_by_name:
                    tensor.ClearField(name)
        for group in config.instance_group:
            group.ClearField("passive")
            group.count = dice.randint(0, 9)
        if not 0 <= config.max_batch_size < 1 << 30:
            config.max_batch_size = 8
    for name, tensors in (("x", config.input), ("y", config.output)):
        if not tensors and dice.random() < 0.5:
            tensors.add(name=name, data_type=dice.randint(1, 13), dims=[4])
    return config


def without_groups(spec):
    """Converting gives a group that says no kind the one that it has."""
    return dataclasses.replace(spec, instances=dataclasses.replace(spec.instances, groups=()))


def go_on_from(config, text, folder):
    """Every way on from a configuration; whether it is accepted."""
    try:
        spec = parse_model_pbtxt(text, "m", source="config.pbtxt")
    except InvalidConfig:
        return False
    yaml = pbtxt_to_yaml(text, "m", source="config.pbtxt")
    back = yaml_to_pbtxt(parse_yaml(yaml, source="model.yaml") or {}, source="model.yaml")
    (folder / "model.yaml").write_text(yaml, encoding="utf-8")
    for again in (parse_model_pbtxt(back, "m", source="back"), load_model_yaml(folder / "model.yaml", "m")):
        assert without_groups(again) == without_groups(spec)
    (folder / "model.yaml").unlink()
    moved = on_cpus(spec)
    handle = ModelHandle(moved, "1", [])
    handle.max_batch_size = moved.max_batch_size or 0
    json_format.MessageToJson(handle.config_proto())
    config_json(moved)
    with contextlib.suppress(TrilithError):  # it lacks something, or a tensor is none
        completed_spec(moved, "")
    with contextlib.suppress(TrilithError):
        signature = IdentityBackend(ModelFile(model="m", version=1, path=None, spec=moved)).load()
        batching_config(moved, complete(moved, signature))
    return True


def search(inputs, folder):
    dice, accepted = random.Random(inputs), 0
    for number in range(inputs):
        config = made(dice)
        text = text_format.MessageToString(config)
        try:
            accepted += go_on_from(config, text, folder)
            sent = json_format.MessageToJson(config, preserving_proto_field_name=dice.random() < 0.5)
            with contextlib.suppress(TrilithError):  # refused
                Override("m", sent, {}).spec_of(folder)
        except Exception as error:
            raise AssertionError(f"configuration {number}:\n{text}") from error
    assert inputs / 4 < accepted < inputs


def test_made(tmp_path):
    search(MADE, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_made_at_length(tmp_path):
    search(MADE_IN_FULL, tmp_path)


def test_the_list_says_how_many_are_made():
    row = rf"^\| configurations of Triton's, made .* \| {MADE:,} \| {MADE_IN_FULL:,} \|$"
    assert re.search(row, CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE)

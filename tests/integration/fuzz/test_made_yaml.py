"""A `model.yaml` made at random from its keys: refused in our words, or told, and converted to what means the same."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from pathlib import Path

import pytest
from google.protobuf import json_format

from trilith.config import dump_yaml, load_yaml
from trilith.errors import InvalidConfig, TrilithError
from trilith.runtime import ModelFile, ModelHandle
from trilith.runtime.backends.identity import IdentityBackend
from trilith.runtime.batching import batching_config
from trilith.runtime.model_convert import yaml_to_pbtxt
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.overrides import Override
from trilith.runtime.signature import complete

MADE = 500
MADE_IN_FULL = 100_000
CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"
TEXTS = (
    "",
    "x",
    "y",
    "m",
    "a b",
    "é",
    "1",
    "true",
    "null",
    "1e3",
    "~",
    "..",
    "\0",
    "0x10",
    "2020-01-01",
    "- a",
    "a: b",
)
DATATYPES = ("FP32", "INT64", "BYTES", "FP16", "BF16", "BOOL", "FP99")
WHOLE = (-2, -1, 0, 1, 2, 4, 8, 64, 256, 257, (1 << 31) - 1, 1 << 31, 1 << 63, -(1 << 63))
BROKEN = (0.5, 2.5, 1e-9, 1e9, 3e10, 1e300, float("inf"), float("nan"), -1.0)
JUNK = (None, True, [], {}, "x", 1, [1], {"a": 1})
TRITON = (
    {"response_cache": {"enable": True}},
    {"optimization": {"graph": {"level": 1}}},
    {"metric_tags": {"a": "b"}},
    {"instance_group": [{"kind": "KIND_GPU", "count": 2}]},
    {"max_batch_size": 3},
    {"x": 1},
    {"model_warmup": [{"name": "w", "batch_size": 2}]},
    {"dynamic_batching": {"priority_levels": 3, "default_priority_level": 1}},
)


class Dice(random.Random):
    """What values are drawn by."""

    def small(self):
        return self.choice((0, 1, 2, 4, 8)) if self.random() < 0.85 else self.number()

    def number(self):
        return self.choice(WHOLE) if self.random() < 0.7 else self.choice(BROKEN)

    def some(self, **values):
        """Some of these keys, each made when it is there."""
        return {key: make() for key, make in values.items() if self.random() < 0.4}

    def many(self, make, most):
        return [make() for _ in range(self.randint(0, most))]


def dims(dice):
    return dice.many(lambda: dice.choice((-1, 1, 2, 4)) if dice.random() < 0.9 else dice.choice(WHOLE), 3)


def tensor(dice, further):
    known = {"name": dice.choice("xyzt") if dice.random() < 0.9 else dice.choice(TEXTS)}
    known |= dice.some(datatype=lambda: dice.choice(DATATYPES), dims=lambda: dims(dice))
    return known | (dice.some(**further) if dice.random() < 0.3 else {})


def filled(dice):
    more = dice.some(value=dice.number, buckets=lambda: dice.many(dice.small, 3), multiple_of=dice.small)
    return {"axis": dice.small() - 1, **more}


def cut(dice):
    return {"axis": dice.small() - 1, "input": "x", **dice.some(divide_by=dice.small)}


def made(dice):
    """The content of a file."""
    small, number = dice.small, dice.number

    def text():
        return dice.choice(TEXTS)

    def yes():
        return dice.random() < 0.5

    inputs = {"optional": yes, "ragged": yes, "labels": text, "pad": lambda: filled(dice)}
    outputs = {"labels": text, "reduce": lambda: "argmax", "unpad": lambda: cut(dice)}
    policy = {"timeout_ms": number, "timeout_action": lambda: dice.choice(("reject", "delay", "x")), "max_size": small}
    kinds = ("item_shape", "element_count", "x")
    whole = dice.some(
        name=lambda: dice.choice(("m", "m", "m", *TEXTS)),
        backend=lambda: dice.choice(("identity", "python", "onnxruntime", "own")),
        runtime=lambda: "model.py",
        max_batch_size=small,
        inputs=lambda: dice.many(lambda: tensor(dice, inputs), 3),
        outputs=lambda: dice.many(lambda: tensor(dice, outputs), 3),
        instances=lambda: small() if yes() else dice.some(count=small, share_session=yes),
        batching=lambda: (
            yes()
            if yes()
            else dice.some(
                adaptive=yes, preferred=lambda: dice.many(small, 2), max_wait_ms=number, preserve_ordering=yes
            )
        ),
        versions=lambda: dice.choice(("latest", "all", {"latest": small()}, [1, 3], [small()], [])),
    )
    if dice.random() < 0.5:
        whole |= dice.some(
            batch_inputs=lambda: [{"kind": dice.choice(kinds), "targets": ["t"], "source": "x"}],
            batch_outputs=lambda: [{"targets": dice.choice(([], ["y"], [""])), "source": "x"}],
            queue=lambda: dice.some(**policy, allow_timeout_override=yes, max_rows=small),
            priority=lambda: dice.some(levels=small, default=small, policies=lambda: {small(): dice.some(**policy)}),
            session=lambda: dice.some(intra_op_threads=small, parallel=yes, entries=lambda: {"a": text()}),
            source=text,
            version=small,
            filename=text,
            parameters=lambda: {
                text(): dice.choice((*TEXTS, *WHOLE, *BROKEN, True)) for _ in range(dice.randint(0, 3))
            },
            agents=lambda: dice.many(lambda: {"name": text(), **dice.some(parameters=lambda: {text(): text()})}, 2),
            timeout_ms=number,
            load_timeout_ms=number,
            pure=yes,
            triton=lambda: dice.choice(TRITON),
        )
    return {key: dice.choice(JUNK) if dice.random() < 0.01 else value for key, value in whole.items()}


def without_what_conversion_adds(spec):
    """Groups get their kind, parameters of ONNX Runtime are its session's, and without a batch dimension none joins."""
    queue = dataclasses.replace(spec.queue, batching=spec.queue.batching and spec.max_batch_size != 0)
    return dataclasses.replace(
        spec, queue=queue, session=None, instances=dataclasses.replace(spec.instances, groups=(), share=True)
    )


def go_on_from(path):
    """Every way on from a file; whether it is accepted."""
    try:
        spec = load_model_yaml(path, "m")
    except InvalidConfig:
        return False
    handle = ModelHandle(spec, "1", [])
    handle.max_batch_size = spec.max_batch_size or 0
    json_format.MessageToJson(handle.config_proto())
    with contextlib.suppress(TrilithError):  # a tensor is none
        signature = IdentityBackend(ModelFile(model="m", version=1, path=None, spec=spec)).load()
        batching_config(spec, complete(spec, signature))
    with contextlib.suppress(TrilithError):
        Override("m", '{"max_batch_size": 3, "instance_group": [{"count": 2}]}', {}).spec_of(path.parent)
    try:
        text = yaml_to_pbtxt(load_yaml(path, dict), source=str(path))
    except InvalidConfig:  # it says more than the other form can
        return True
    converted = parse_model_pbtxt(text, "m", source="config.pbtxt")
    assert without_what_conversion_adds(converted) == without_what_conversion_adds(spec)
    return True


def search(inputs, folder):
    dice, accepted, path = Dice(inputs), 0, folder / "model.yaml"
    for number in range(inputs):
        text = dump_yaml(made(dice))
        path.write_text(text, encoding="utf-8")
        try:
            accepted += go_on_from(path)
        except Exception as error:
            raise AssertionError(f"file {number}:\n{text}") from error
    assert inputs / 8 < accepted < inputs


def test_made(tmp_path):
    search(MADE, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_made_at_length(tmp_path):
    search(MADE_IN_FULL, tmp_path)


def test_the_list_says_how_many_are_made():
    row = rf"^\| files `model.yaml`, made .* \| {MADE:,} \| {MADE_IN_FULL:,} \|$"
    assert re.search(row, CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE)

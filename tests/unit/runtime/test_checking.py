"""Configurations in words, and what is wrong with them."""

import json
import os
import re
from pathlib import Path

import pytest

from trilith.cli import make_app
from trilith.errors import UnknownReference
from trilith.runtime import check_models, checking


def write(root, name, config, *versions, filename="config.pbtxt"):
    (root / name).mkdir(parents=True)
    (root / name / filename).write_text(config)
    for version in versions:
        (root / name / version).mkdir()
        (root / name / version / "model.onnx").touch()


def test_words(tmp_path):
    write(
        tmp_path,
        "ocr",
        "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 2000 } instance_group { count: 2 } "
        'input { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] }',
        "1",
        "2",
    )
    (found,) = check_models(tmp_path)
    assert found.ok
    assert found.meaning == [
        "Backend onnxruntime; version 2 would be served.",
        "Requests are joined to batches; a request may bring up to 8 rows.",
        "Input x: FP32, shape [rows, 3, any].",
        "A batch that is not full waits up to 2 ms for company.",
        "2 batches run at the same time.",
    ]
    assert check_models(tmp_path / "ocr") == check_models(tmp_path / "ocr" / "config.pbtxt") == [found]


def test_what_is_probably_not_meant(tmp_path):
    write(tmp_path, "m", 'max_batch_size: 8 input { name: "x" data_type: TYPE_FP32 dims: [ -1, 3 ] }', "1")
    (found,) = check_models(tmp_path)
    assert found.ok
    assert [line.split(":")[0] for line in found.advice] == [
        "dims of x begin with -1 although max_batch_size is 8",
        "max_batch_size is 8 but requests are not joined",
    ]


def test_what_is_wrong(tmp_path):
    write(tmp_path, "typo", "max_batch: 8", filename="model.yaml")
    write(tmp_path, "empty", 'backend: "onnxruntime"')
    write(tmp_path, "nofile", 'backend: "onnxruntime"', "1")
    (tmp_path / "nofile" / "1" / "model.onnx").unlink()
    found = {model.name: model.problem for model in check_models(tmp_path)}
    assert "did you mean 'max_batch_size'" in found["typo"]
    assert "at least one version must be available" in found["empty"]
    assert "model.onnx: there is no such file" in found["nofile"]
    with pytest.raises(UnknownReference, match="there is no such file or folder"):
        check_models(tmp_path / "nowhere")


def test_the_command_line(tmp_path, capsys):
    write(tmp_path, "good", 'backend: "identity" max_batch_size: 2')
    assert make_app()(["models", "check", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(
        "good: configuration ok, files not opened\n  Backend identity; version 1 would be served.\n"
    )
    write(tmp_path, "bad", "nope: 1", filename="model.yaml")
    assert make_app()(["models", "check", str(tmp_path)]) == 1
    assert "2 models, 1 of them cannot be served" in capsys.readouterr().out
    assert make_app()(["models", "check", str(tmp_path), "--json"]) == 1
    assert [model["ok"] for model in json.loads(capsys.readouterr().out)] == [False, True]
    assert make_app()(["models", "list", str(tmp_path)]) == 0
    assert "good" in capsys.readouterr().out
    target = tmp_path / "out.yaml"
    assert make_app()(["models", "convert", str(tmp_path / "good"), str(target)]) == 0
    assert target.read_text().startswith("backend: identity\n")


def test_nothing_to_check_is_an_error(tmp_path):
    write(tmp_path / "models", "m", "", "1", filename="model.yaml")
    (tmp_path / "none").mkdir()
    with pytest.raises(UnknownReference, match="there is no model in it"):
        make_app()(["models", "check", str(tmp_path / "none")])
    with pytest.raises(UnknownReference, match=r"the folder of a version; name that of its model: .*/m"):
        check_models(tmp_path / "models" / "m" / "1")


def test_padding_reductions_and_open_sizes_in_words(tmp_path):
    config = """
inputs:
  - {name: tokens, pad: {axis: 0, value: 2, multiple_of: 4, mask: mask, lengths: counts}}
  - {name: rest, datatype: INT64, pad: {axis: 1, buckets: [8, 16]}}
outputs:
  - {name: scores, unpad: {axis: 0, input: tokens, divide_by: 2}}
  - {name: classes, reduce: argmax}
"""
    write(tmp_path, "m", config, "1", filename="model.yaml")
    (found,) = check_models(tmp_path)
    assert found.meaning[1:-3] == [
        "Requests are joined to batches; a request may bring up to 4 rows, if the model file has a batch dimension of "
        "any size.",
        "Input tokens: type and shape are those in the model file.",
        "Requests of different lengths share batches: tokens is filled along axis 0 with 2 up to the next multiple of "
        "4.",
        "Input mask is made, and not sent: 1 where a request's own data is, 0 where it was filled.",
        "Input counts is made, and not sent: each row's own length.",
        "Input rest: INT64, the shape in the model file.",
        "Requests of different lengths share batches: rest is filled along axis 1 with 0 up to the next of 8, 16.",
        "Output scores: type and shape are those in the model file.",
        "Output scores is cut back along axis 0 to the request's own length of tokens, divided by 2.",
        "Output classes.index: type and shape are those in the model file.",
    ]
    assert "Of the output classes of the model file only the argmax leaves: its index and its value." in found.meaning


PYTHON_MODEL = "class TritonPythonModel:\n    def execute(self, requests): {body}\n"


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (PYTHON_MODEL.format(body="return []"), ""),
        ("from elsewhere import TritonPythonModel\n", ""),
        ("class Other: ...\nTritonPythonModel = Other\n", ""),
        ("class Other: ...\n", "has no class TritonPythonModel"),
        ("class TritonPythonModel\n", "is no Python that can be read: expected ':'"),
        (PYTHON_MODEL.format(body="return [pb_utils.InferenceRequest('m').exec()]"), r":2: exec: asking another model"),
        (PYTHON_MODEL.format(body="r = InferenceRequest('m'); r.async_exec()"), r"model.py:2: async_exec: .*scripting"),
        (PYTHON_MODEL.format(body="exec('x')"), ""),
    ],
)
def test_a_model_py_is_read_and_not_run(tmp_path, source, problem):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text(source)
    (tmp_path / "m" / "config.pbtxt").write_text(
        'backend: "python" parameters { key: "sep" value: { string_value: "," } }'
    )
    (found,) = check_models(tmp_path)
    assert found.ok is (not problem)
    assert re.search(problem, found.problem)
    assert found.without_effect == []  # a parameter of a model.py is its own


def test_any_number_of_texts_is_meant(tmp_path):
    texts = 'max_batch_size: 8 dynamic_batching {} input { name: "x" data_type: TYPE_STRING dims: [ -1 ] }'
    write(tmp_path, "m", texts, "1")
    (found,) = check_models(tmp_path)
    assert found.advice == []


def test_what_is_neither_folder_nor_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((Path("/dev/null"), "a device"), (tmp_path / "pipe", "a pipe")):
        with pytest.raises(UnknownReference, match=f"{path}: is {what}; expected a repository"):
            check_models(path)


def test_one_broken_model_leaves_the_others(tmp_path, monkeypatch):
    write(tmp_path, "a", "parameters: {day: 2020-13-45}", "1", filename="model.yaml")
    for name in ("b", "c"):
        write(tmp_path, name, "", "1", filename="model.yaml")
    plan = checking.plan_model

    def plan_or_not(name, *arguments, **more):
        if name == "b":
            raise ZeroDivisionError("a bug of ours")
        return plan(name, *arguments, **more)

    monkeypatch.setattr(checking, "plan_model", plan_or_not)
    found = check_models(tmp_path)
    assert [model.ok for model in found] == [False, False, True]
    assert found[0].problem == (
        f"{tmp_path}/a/model.yaml: line 1, column 19: '2020-13-45' is no timestamp: month must be in 1..12"
    )
    assert "ZeroDivisionError: a bug of ours; please report this" in found[1].problem


def test_a_folder_that_was_meant_for_a_version_is_told(tmp_path):
    for name in ("1", "v2", "03", "notes"):
        (tmp_path / "m" / name).mkdir(parents=True)
        if name != "notes":
            (tmp_path / "m" / name / "model.onnx").write_bytes(b"")
    [found] = check_models(tmp_path / "m")
    why = "holds a model file and is left out: a version is a folder whose name is a number that does not begin with 0"
    assert [line for line in found.advice if "left out" in line] == [f"the folder '03' {why}", f"the folder 'v2' {why}"]

"""What goes between the runtime and a model's process, and what the runtime makes of it. No process."""

import asyncio
import contextlib
import json
import os
import socket

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trilith.core.foreign import shortened
from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig, ModelError, NotFound, SetupError
from trilith.net.transport import Reply
from trilith.runtime.backends.port import Answered, RequestBatch
from trilith.runtime.backends.python import messages
from trilith.runtime.backends.python.asking import Answering
from trilith.runtime.backends.python.calls import AnswerReader, RunningCall, packed_call
from trilith.runtime.backends.python.completion import completed_spec, config_json, signature_of
from trilith.runtime.backends.python.counted import CountedByModels
from trilith.runtime.backends.python.descriptors import lowest_own, moved_up, opening_above
from trilith.runtime.backends.python.environment import environment_key, find_requirements
from trilith.runtime.backends.python.hosted import described
from trilith.runtime.backends.python.messages import Counted, Declared, IsModelReady, LoadModel, Told, UnloadModel
from trilith.runtime.backends.python.packing import (
    AnswerHead,
    BatchAnswer,
    decode_answer,
    decode_requests,
    encode_answer,
    pack_inputs,
)
from trilith.runtime.backends.python.pb_utils import InferenceResponse, TritonModelException, is_model_ready
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.signature import Offer
from trilith.runtime.spec import ModelSpec
from trilith.telemetry.families import Buckets


class Batch(RequestBatch):
    awaited = True

    def is_awaited(self, at):
        return self.awaited


def batch_of(*inputs, **more):
    requests = [InferRequest(model="m", inputs=each, **more) for each in inputs]
    return Batch(requests, list(inputs), [("y",)] * len(inputs))


tensors = st.dictionaries(
    st.text(min_size=1, max_size=5),
    arrays.arrays(
        st.sampled_from([np.float32, np.int64, np.uint8, np.bool_]), arrays.array_shapes(min_dims=0, max_side=4)
    ),
    max_size=3,
)


@given(st.lists(tensors, min_size=1, max_size=4))
def test_requests_arrive_as_they_were_sent(inputs):
    meta, buffers = packed_call("m", batch_of(*inputs), {})
    found = decode_requests("m", meta, buffers)
    assert len(found) == len(inputs)
    for (head, given_inputs), sent in zip(found, inputs, strict=True):
        assert head.outputs == ("y",)
        assert list(given_inputs) == list(sent)
        for name, array in sent.items():
            assert given_inputs[name].dtype == array.dtype
            assert given_inputs[name].shape == array.shape
            assert given_inputs[name].tobytes() == array.tobytes()


def test_what_triton_reads_itself_is_no_parameter_for_the_model():
    parameters = {"color": "red", "sequence_id": 7, "sequence_start": True, "headers": "x"}
    meta, buffers = packed_call("m", batch_of({}, id="i", parameters=parameters, timeout_us=5), {})
    [(head, _)] = decode_requests("m", meta, buffers)
    assert head.parameters == {"color": "red"}
    assert (head.correlation_id, head.flags, head.timeout_us, head.id) == (7, 1, 5, "i")


OFFER = Offer(
    inputs=(TensorSpec(name="x", datatype=DataType.FP32, shape=(-1, -1)),),
    outputs=(TensorSpec(name="y", datatype=DataType.FP32, shape=(-1, 2)),),
    max_batch_size=8,
)


def answered(*answers, rows=1, failure=""):
    heads, buffers = [], []
    for answer in answers:
        if isinstance(answer, np.ndarray):
            tensor_heads, parts = pack_inputs("m", {"y": answer}, {})
            heads.append(AnswerHead(tensor_heads, {"p": 1}))
            buffers += [memoryview(bytearray(part)) for part in parts]
        else:
            heads.append(answer)
    meta = encode_answer(BatchAnswer(heads, failure))
    x = np.zeros((rows, 1), np.float32)
    call = RunningCall(batch_of(*[{"x": x}] * max(1, len(answers))), lambda _: None, 0.0)
    return AnswerReader("m", OFFER).outcome(call, Reply(True, meta, buffers, "", "", 1.0, 2.0))


def test_each_request_has_its_own_answer():
    outcome = answered(np.ones((1, 2), np.float32), AnswerHead(code="not_found", message="no"))
    first, second = outcome.answers
    assert isinstance(first, Answered)
    assert first.outputs["y"].tolist() == [[1, 1]]
    assert first.parameters == {"p": 1}
    assert type(second) is NotFound
    assert (outcome.started_at, outcome.finished_at) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones((1, 2), np.float64), "FP64.*FP32"),
        (np.ones((1, 3), np.float32), r"shape \[1, 3\] for a request of 1 rows.*\[1, 2\]"),
        (np.ones((2, 2), np.float32), r"shape \[2, 2\]"),
        (np.ones(2, np.float32), r"shape \[2\]"),
    ],
)
def test_an_output_that_is_not_as_declared_is_one_error(array, words):
    [answer] = answered(array).answers
    assert type(answer) is ModelError
    with pytest.raises(ModelError, match=words):
        raise answer


def test_a_failed_batch_fails_for_all_and_nonsense_too():
    outcome = answered(failure="ValueError: no")
    [error] = outcome.answers
    assert str(error) == "Failed to process the request(s) for model 'm', message: ValueError: no"
    with pytest.raises(ModelError, match="cannot be read"):
        decode_answer("m", b"\xc1", 1)
    with pytest.raises(ModelError, match="answered 0 of 1"):
        decode_answer("m", encode_answer(BatchAnswer([])), 1)


def test_a_call_is_abandoned_when_nobody_waits():
    batch = batch_of({}, {})
    call = RunningCall(batch, lambda _: None, 0.0)
    assert call.newly_taken_back() == []
    assert call.abandoned_since is None
    batch.awaited = False
    assert call.newly_taken_back() == [0, 1]
    assert call.newly_taken_back() == []
    assert call.abandoned_since is not None


def test_messages_are_read_to_the_byte():
    near, far = socket.socketpair()
    with near, far:
        for message in (
            messages.Ready(),
            messages.Said(level="info", text="é" * 5000),
            messages.Failed(text=""),
        ):
            messages.send(near, message)
        near.sendall(b"frame")
        assert messages.receive(far) == messages.Ready()
        assert messages.receive(far).text == "é" * 5000
        assert isinstance(messages.receive(far), messages.Failed)
        assert far.recv(100) == b"frame"
        near.sendall(b"\x01\x00\x00\x00\xc1")
        with pytest.raises(ModelError, match="cannot be read"):
            messages.receive(far)
        near.close()
        with pytest.raises(EOFError):
            messages.receive(far)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_an_error(raw):
    with contextlib.suppress(ModelError):
        assert isinstance(messages.decode(raw), msgspec.Struct)


PBTXT = """
backend: "python"
max_batch_size: 4
input { name: "x" data_type: TYPE_FP32 dims: [ 3 ] optional: true }
output { name: "y" data_type: TYPE_STRING dims: [ -1 ] }
dynamic_batching { max_queue_delay_microseconds: 5000 }
parameters { key: "threshold" value { string_value: "007" } }
"""


def test_a_model_reads_its_configuration_as_triton_writes_it():
    config = json.loads(config_json(parse_model_pbtxt(PBTXT, "m", source="test")))
    assert (config["name"], config["backend"], config["max_batch_size"]) == ("m", "python", 4)
    [x], [y] = config["input"], config["output"]
    assert (x["data_type"], x["dims"], x["optional"]) == ("TYPE_FP32", [3], True)
    assert (y["data_type"], y["dims"]) == ("TYPE_STRING", [-1])
    assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 5000
    assert config["parameters"] == {"threshold": {"string_value": "007"}}
    assert config["instance_group"][0]["kind"] == "KIND_CPU"


def test_a_configuration_without_a_say_of_the_model_stays():
    spec = parse_model_pbtxt(PBTXT, "m", source="test")
    completed = completed_spec(spec, "")
    assert completed == spec
    assert [tensor.shape for tensor in signature_of(completed).inputs] == [(-1, 3)]


def test_dynamic_batching_is_the_models_choice_when_nobody_else_says():
    spec = ModelSpec(name="m", backend="python")
    config = json.loads(config_json(spec))
    assert "dynamic_batching" not in config
    config["output"] = [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}]
    assert not completed_spec(spec, json.dumps(config)).queue.batching
    config["dynamic_batching"] = {}
    assert completed_spec(spec, json.dumps(config)).queue.batching


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"output": []}, "at least one output"),
        ({"output": [{"name": "y", "dims": [1]}]}, "data_type: must be specified"),
        ({"output": [{"name": "y", "data_type": "TYPE_FP32"}]}, "dims: must be specified"),
        ({"output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [0]}]}, "dims: each must be >= 1"),
        ({"output": [{"name": "y", "data_type": "TYPE_X", "dims": [1]}]}, "no TYPE_X"),
        ({"max_batch_size": -1}, "max_batch_size: must be an integer >= 0"),
        ({"model_transaction_policy": {"decoupled": True}}, "not served yet"),
    ],
)
def test_what_a_model_completes_wrongly_is_refused(change, words):
    spec = ModelSpec(name="m", backend="python")
    config = {**json.loads(config_json(spec)), **change}
    with pytest.raises(InvalidConfig, match=f"model 'm'.*{words}"):
        completed_spec(spec, json.dumps(config))


def counted(name, change, value=0.0, buckets=(), **labels):
    return Counted(name=name, labels=labels, change=change, value=value, buckets=list(buckets))


def test_series_of_several_instances_are_one():
    metrics = CountedByModels()
    for _ in range(2):
        metrics.declare("m", Declared(name="c", kind="counter", help="two\nlines"))
        metrics.count("m", counted("c", "make", a="b"))
        metrics.count("m", counted("c", "add", 2.0, a="b"))
    metrics.count("m", counted("c", "add", 1.0, other="z"))
    metrics.declare("m", Declared(name="h", kind="histogram", help=""))
    metrics.count("m", counted("h", "make", buckets=[1.0]))
    metrics.count("m", counted("h", "observe", 0.5))
    first, second = metrics.snapshots()
    assert (first.help, first.label_names) == ("two lines", ("a", "other"))
    assert sorted(first.samples) == [(("", "z"), 1.0), (("b", ""), 4.0)]
    assert second.samples == [((), Buckets((1.0,), (1, 1), 0.5))]


@pytest.mark.parametrize("name", ["trilith_x", "nv_x", "a b", "", "1a"])
def test_names_that_are_not_a_models_own_are_left_out(name, caplog):
    metrics = CountedByModels()
    for _ in range(3):
        metrics.declare("m", Declared(name=name, kind="counter", help=""))
        metrics.count("m", counted(name, "add", 1.0))
    assert metrics.snapshots() == []
    assert len(caplog.records) == 1


def test_a_name_keeps_its_kind(caplog):
    metrics = CountedByModels()
    metrics.declare("m", Declared(name="c", kind="counter", help=""))
    metrics.declare("n", Declared(name="c", kind="gauge", help=""))
    assert [snapshot.kind for snapshot in metrics.snapshots()] == ["counter"]
    assert "it is a counter already" in caplog.text


def test_a_model_cannot_make_series_without_end(caplog):
    metrics = CountedByModels()
    metrics.declare("m", Declared(name="c", kind="counter", help=""))
    for at in range(1500):
        metrics.count("m", counted("c", "add", 1.0, a=str(at)))
    assert len(metrics.snapshots()[0].samples) == 1000
    assert "1000 series already" in caplog.text


def test_requirements_stand_beside_the_model_or_in_its_folder(tmp_path):
    model = tmp_path / "m" / "1" / "model.py"
    model.parent.mkdir(parents=True)
    assert find_requirements(model) is None
    (tmp_path / "m" / "requirements.txt").write_text("")
    assert find_requirements(model) == tmp_path / "m" / "requirements.txt"
    (model.parent / "requirements.txt").write_text("")
    assert find_requirements(model) == model.parent / "requirements.txt"
    assert environment_key(b"a") != environment_key(b"b")


def test_a_text_that_is_none_is_sent_all_the_same():
    answer = decode_answer("m", encode_answer(BatchAnswer([], "half of a pair \ud800")), 1)
    assert answer.failure == "half of a pair ?"


def test_an_exception_whose_text_ends_the_process_is_described():
    class Odd(Exception):
        def __str__(self):
            raise SystemExit(1)

    text = described(Odd())
    assert text.startswith("Odd: (its text raised SystemExit)")


@given(st.text(max_size=300), st.integers(1, 100))
def test_a_text_is_cut_where_it_is_too_long_and_says_by_how_much(text, longest):
    short = shortened(text, longest)
    if len(text) <= longest:
        assert short == text
    else:
        assert short == f"{text[:longest]}... ({len(text) - longest} characters more are left out)"


def test_an_exception_with_a_very_long_text_is_described_shortly():
    try:
        raise ValueError("x" * 3_000_000)
    except ValueError as error:
        text = described(error)
    assert len(text) < 50_000
    assert f"characters more are left out)\n\nAt:\n  {__file__}(" in text


def test_metrics_with_long_names_and_odd_labels_are_left_out_and_nothing_breaks(caplog):
    counted = CountedByModels()
    counted.declare("m", Declared(name="x" * 1000 + "...", kind="counter", help=""))
    counted.declare("m", Declared(name="good", kind="counter", help="h"))
    counted.count("m", Counted(name="good", labels={'a"} 1': "b"}, change="add", value=1.0))
    counted.count("m", Counted(name="good", labels={"a": "b"}, change="add", value=1.0))
    [family] = counted.snapshots()
    assert family.samples == [(("b",), 1.0)]
    assert "are no names of labels" in caplog.text


def test_what_runs_out_of_the_way_is_above_small_numbers():
    with opening_above():
        held = os.open(os.devnull, os.O_RDONLY)
    other = os.open(os.devnull, os.O_RDONLY)
    moved = moved_up(other)
    try:
        assert held >= lowest_own() > 20
        assert moved >= lowest_own()
        assert not os.get_inheritable(moved)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(other)
    finally:
        os.close(held)
        os.close(moved)


def test_a_response_takes_no_parameter_that_cannot_be_sent():
    with pytest.raises(TritonModelException, match="does not fit 64 bits"):
        InferenceResponse([], parameters={"n": 1 << 64})


class Models:
    """What a runtime offers to models that ask."""

    def __init__(self):
        self.done = []

    async def load(self, name, parameters):
        self.done.append(("load", name, dict(parameters)))
        if name == "odd":
            raise KeyError("a bug")
        if name == "bad":
            raise SetupError("it has no weights" + "!" * 100_000)

    async def unload(self, name, *, dependents=False):
        self.done.append(("unload", name, dependents))

    def is_ready(self, name, version):
        return (name, version) == ("there", "2")


def test_what_a_model_asks_is_done_or_said_to_be_wrong():
    models = Models()
    answering = Answering("me", lambda: models)

    def told(question):
        return asyncio.run(answering.answer(question))

    assert told(LoadModel(name="a", files={"file:1/x": b"1"}, config="{}")) == Told()
    assert told(UnloadModel(name="a", dependents=True)) == Told()
    assert models.done == [("load", "a", {"file:1/x": b"1", "config": "{}"}), ("unload", "a", True)]
    assert told(IsModelReady(name="there", version="2")).yes
    assert not told(IsModelReady(name="there", version="1")).yes
    assert told(LoadModel(name="bad", files={}, config="")).error.startswith("it has no weights!")
    assert len(told(LoadModel(name="bad", files={}, config="")).error) < 20_000
    assert told(LoadModel(name="odd", files={}, config="")).error == "KeyError: 'a bug'"
    assert "cannot load or unload itself" in told(UnloadModel(name="me", dependents=False)).error
    nowhere = asyncio.run(Answering("me", None).answer(IsModelReady(name="there", version="2")))
    assert "no runtime" in nowhere.error


def test_a_model_in_a_program_of_its_own_cannot_ask_for_others():
    with pytest.raises(TritonModelException, match="no runtime"):
        is_model_ready("m")

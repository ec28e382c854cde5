"""Whatever a model returns is at most the error of the request that it answers. The worker's own code, no process."""

import enum
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.runtime.backends.python import pb_utils
from trilith.runtime.backends.python.hosted import HostedModel
from trilith.runtime.backends.python.messages import Begin
from trilith.runtime.backends.python.packing import RequestHead, decode_answer, encode_answer
from trilith.wire.tensors import unpack_tensors

MODEL = """
class TritonPythonModel:
    make = None

    def execute(self, requests):
        return [self.make(at) for at in range(len(requests))]
"""


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text either")


class Text(str):
    def __format__(self, spec):
        raise Odd

    def encode(self, *_, **__):
        raise Odd


class Number(int):
    pass


class Word(enum.StrEnum):
    A = "a"


class Element:
    def __str__(self):
        raise Odd


class Response(pb_utils.InferenceResponse):
    def error(self):
        raise SystemExit(3)


class Wrong(pb_utils.TritonError):
    def code(self):
        return "no code"


class Silent(pb_utils.TritonError):
    def message(self):
        return None


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**80), max_value=2**80),
    st.floats(),
    st.text(st.characters(), max_size=5),
    st.sampled_from(["\ud800", Text("x"), Number(2**70), Number(3), Word.A, b"bytes", object(), Element(), 1 + 2j]),
    st.sampled_from(
        [np.float64(1.5), np.float32("nan"), np.int64(-1), np.uint64(2**64 - 1), np.bool_(True), np.str_("s")]
    ),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2)
)
parameters = st.dictionaries(
    st.one_of(st.text(max_size=3), st.integers(), st.sampled_from([Text("k"), "\udfff"])), values
)
arrays = st.one_of(
    st.sampled_from(
        [
            np.zeros((1, 2), np.float32),
            np.zeros((0,), np.float64),
            np.float32(3) * np.ones(()),
            np.zeros((2, 3), np.int16).T,
            np.zeros((1, 1), ">f4"),
            np.zeros(2, np.bool_),
            np.array([[1, 2]], np.float32)[:, ::-1],
        ]
    ),
    st.lists(values, max_size=3).map(lambda found: np.fromiter(found, object, len(found))),
)
names = st.one_of(st.sampled_from(["y", "y", "y", "z", Text("y"), "\ud800"]), st.integers(), st.none())
answers = st.one_of(
    st.tuples(st.just("response"), st.lists(st.tuples(names, arrays), max_size=2), parameters),
    st.tuples(st.just("error"), st.one_of(values, st.sampled_from([Wrong("w"), Silent("s")])), values),
    st.tuples(st.just("odd"), st.none(), st.none()),
)


def response_of(kind, first, second):
    """A response as a model makes it; where making it raises, what a model would then do: the error as text."""
    try:
        if kind == "response":
            return pb_utils.InferenceResponse([pb_utils.Tensor(name, array) for name, array in first], None, second)
        if kind == "error":
            return pb_utils.InferenceResponse(
                error=first if isinstance(first, pb_utils.TritonError) else pb_utils.TritonError(first, second)
            )
        return Response([])
    except pb_utils.TritonModelException:
        return pb_utils.InferenceResponse(error=pb_utils.TritonError("refused"))


@pytest.fixture(scope="module")
def hosted(tmp_path_factory):
    path = tmp_path_factory.mktemp("odd") / "1" / "model.py"
    path.parent.mkdir()
    path.write_text(MODEL)
    before = list(sys.path), sys.modules.get("model")
    begin = Begin(
        model="odd",
        version="1",
        instance="odd_0",
        kind="CPU",
        repository="r",
        folder=str(path.parent),
        path=str(path),
        config="{}",
        complete=False,
    )
    model = HostedModel(begin)
    model.initialize("{}")
    yield model
    sys.path[:] = before[0]
    sys.modules.pop("model", None)


@given(st.lists(answers, min_size=1, max_size=4))
def test_whatever_a_model_returns_is_one_request_s_outcome(hosted, given_answers):
    made = [response_of(*answer) for answer in given_answers]
    good = pb_utils.InferenceResponse([pb_utils.Tensor("y", np.ones(1, np.float32))], parameters={"n": 1})
    hosted._model.make = [*made, good].__getitem__
    received = [(RequestHead([], ("y",)), {}) for _ in range(len(made) + 1)]
    answer, buffers = hosted.execute(received, lambda _: False, None)
    found = decode_answer("odd", encode_answer(answer), len(received))
    assert not found.failure
    at = 0
    for head in found.answers:
        assert bool(head.code) != bool(head.tensors)
        unpack_tensors("odd", head.tensors, buffers[at : at + len(head.tensors)])
        at += len(head.tensors)
    assert at == len(buffers)
    assert found.answers[-1].parameters == {"n": 1}  # its neighbours' oddities are not its own


def test_values_that_numpy_derives_from_python_s_travel_as_python_s():
    response = pb_utils.InferenceResponse(
        parameters={
            "a": np.float64(1.5),
            "b": np.int64(-2),
            "c": np.bool_(True),
            np.str_("d"): np.str_("e"),
            "f": Number(3),
        }
    )
    plain = response.parameter_values
    assert plain == {"a": 1.5, "b": -2, "c": True, "d": "e", "f": 3}
    assert [type(value) for value in plain.values()] == [float, int, bool, str, int]
    assert type(list(plain)[3]) is str


@pytest.mark.parametrize("value", [2**70, -(2**70), None, b"x", [1], {"a": 1}, 1j])
def test_what_no_parameter_can_hold_is_said_where_it_is_made(value):
    with pytest.raises(pb_utils.TritonModelException, match="parameter 'a'"):
        pb_utils.InferenceResponse(parameters={"a": value})

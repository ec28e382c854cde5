"""Requests of different shapes are joined, run and told apart: optional, padded and ragged inputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.core.model import ModelSignature
from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig, InvalidInput, ModelError
from trilith.runtime.collation import Collation
from trilith.runtime.execution import Execution
from trilith.runtime.joining import (
    BatchInput,
    BatchInputKind,
    BatchOutput,
    Padding,
    Unpadding,
    batch_input_values,
)
from trilith.runtime.signature import complete
from trilith.runtime.spec import DeclaredTensor, ModelSpec
from trilith.runtime.ticket import Ticket
from trilith.runtime.validation import Validator
from trilith.testing.clock import FakeClock


def tensor(name, *shape, datatype=DataType.FP32):
    return TensorSpec(name=name, datatype=datatype, shape=shape)


class Model:
    """Some tensors and a function, behind everything that a request passes."""

    def __init__(self, takes, gives, compute, /, **spec):
        self.compute = compute
        self.spec = ModelSpec(name="m", **{"max_batch_size": 8, **spec})
        self.offer = complete(self.spec, ModelSignature(inputs=takes, outputs=gives))
        self.validator = Validator("m", self.offer)
        assert Collation.needed(self.spec)
        self.execution = Execution(
            "m", self.offer, pure=False, clock=FakeClock(), collation=Collation(self.spec, self.offer)
        )
        self.seen = []

    def run(self, batch):
        self.seen.append(batch.inputs)
        made = self.compute(**batch.inputs)
        return [made[name] for name in batch.outputs]

    def key(self, **inputs):
        return self.admit(inputs).shape

    def admit(self, inputs, outputs=()):
        return self.validator.admit(InferRequest(model="m", inputs=inputs, outputs=outputs))

    def infer(self, *requests, outputs=()):
        """The outputs of requests that run as one batch, as lists."""
        admitted = [self.admit(inputs, outputs) for inputs in requests]
        assert len({one.shape for one in admitted}) == 1, "they would not share a lane"
        tickets = [
            Ticket(
                None,
                InferRequest(model="m", inputs=inputs, outputs=outputs),
                one,
                None,
                None,
                priority=1,
                deadline=None,
                alone=False,
            )
            for inputs, one in zip(requests, admitted, strict=True)
        ]
        (executed,) = self.execution.run(self, tickets, 0.0)
        if executed.error is not None:
            raise executed.error
        return [{name: array.tolist() for name, array in one.items()} for one in executed.outputs]


def floats(*rows):
    return np.array(rows, np.float32)


def two_inputs(**spec):
    return Model(
        (tensor("a", -1, 2), tensor("b", -1, 2)),
        (tensor("y", -1, 2),),
        lambda a, b=0: {"y": a + b},
        inputs=(DeclaredTensor(name="b", optional=True),),
        **spec,
    )


def test_what_is_left_out_waits_in_another_lane_and_is_not_given_to_the_model():
    model = two_inputs()
    a, b = floats([1, 2]), floats([10, 20])
    assert model.key(a=a) != model.key(a=a, b=b)
    assert model.infer({"a": a}, {"a": b}) == [{"y": [[1, 2]]}, {"y": [[10, 20]]}]
    assert list(model.seen[-1]) == ["a"]
    assert model.infer({"b": b, "a": a}) == [{"y": [[11, 22]]}]


@pytest.mark.parametrize(
    ("given_names", "says"),
    [
        (("b",), r"expected number of inputs between 1 and 2 but got 1 inputs for model 'm'. Got .*missing .*\['a'\]"),
        ((), r"expected number of inputs between 1 and 2 but got 0"),
        (("a", "c"), "unexpected inference input 'c'"),
        (("a", "b", "c"), "unexpected inference input 'c'"),
    ],
)
def test_wrong_sets_of_inputs_are_refused(given_names, says):
    with pytest.raises(InvalidInput, match=says):
        two_inputs().admit({name: floats([1, 2]) for name in given_names})


def padded(pad, unpad=None, *, model_length=-1, **spec):
    """y = x plus its mask; z = the sum over the length."""
    inputs = [tensor("x", -1, model_length), tensor("m", -1, -1), tensor("n", -1, 1, datatype=DataType.INT32)]

    def compute(x, m=0, n=0):
        return {"y": x + m, "z": x.sum(1, keepdims=True) + n}

    return Model(
        tuple(each for each in inputs if each.name in ("x", pad.mask, pad.lengths)),
        (tensor("y", -1, model_length), tensor("z", -1, 1)),
        compute,
        inputs=(DeclaredTensor(name="x", pad=pad),),
        outputs=(DeclaredTensor(name="y", unpad=unpad), DeclaredTensor(name="z")),
        **spec,
    )


def test_requests_are_padded_to_their_bucket_and_outputs_cut_back():
    model = padded(
        Padding(axis=0, value=7, buckets=(4, 8), mask="m", lengths="n"), Unpadding(axis=-1, input="x"), model_length=4
    )
    assert [each.name for each in model.offer.inputs] == ["x"]
    assert model.offer.inputs[0].shape == (-1, -1), "clients may send any length"
    one, two = floats([1, 2]), floats([3, 4, 5], [6, 7, 8])
    assert model.key(x=one) == model.key(x=two) != model.key(x=floats([0] * 5))
    assert model.infer({"x": one}, {"x": two}) == [
        {"y": [[2, 3]], "z": [[1 + 2 + 7 + 7 + 2]]},
        {"y": [[4, 5, 6], [7, 8, 9]], "z": [[12 + 7 + 3], [21 + 7 + 3]]},
    ]
    seen = model.seen[-1]
    assert seen["x"].tolist() == [[1, 2, 7, 7], [3, 4, 5, 7], [6, 7, 8, 7]]
    assert seen["m"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]]
    assert (seen["n"].tolist(), seen["n"].dtype) == ([[2], [3], [3]], np.int32)
    assert model.infer({"x": one}, outputs=("z",)) == [{"z": [[19]]}]
    assert model.infer({"x": floats([1] * 4)}) == [{"y": [[2] * 4], "z": [[8]]}]


def test_without_buckets_all_lengths_are_padded_to_the_longest():
    model = padded(Padding(axis=-1), Unpadding(axis=0, input="x", divide_by=2))
    assert model.key(x=floats([1])) == model.key(x=floats([1, 2, 3]))
    outputs = model.infer({"x": floats([1])}, {"x": floats([1, 2, 3])})
    assert outputs == [{"y": [[1]], "z": [[1]]}, {"y": [[1, 2]], "z": [[6]]}]


def test_longer_than_every_bucket_waits_alone_with_its_like():
    padding = Padding(axis=0, buckets=(4, 8))
    assert [padding.bucket(length) for length in (1, 4, 5, 8, 9)] == [4, 4, 8, 8, 9]
    assert [Padding(axis=0, multiple_of=3).bucket(length) for length in (0, 1, 3, 4)] == [3, 3, 3, 6]


def test_a_model_without_a_batch_dimension_is_padded_too():
    model = Model(
        (tensor("x", -1), tensor("m", -1, datatype=DataType.BOOL), tensor("n", datatype=DataType.INT64)),
        (tensor("y", -1),),
        lambda x, m, n: {"y": np.where(m, x, -1) + n},
        max_batch_size=0,
        inputs=(DeclaredTensor(name="x", pad=Padding(axis=0, multiple_of=4, mask="m", lengths="n")),),
    )
    assert model.infer({"x": floats(1, 2)}) == [{"y": [3, 4, 1, 1]}]


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"buckets": (8, 4)}, r"pad\.buckets: must be lengths >= 1 in ascending order"),
        ({"buckets": (0,)}, r"pad\.buckets"),
        ({"buckets": (8,), "multiple_of": 4}, r"pad\.multiple_of"),
        ({"mask": "m", "lengths": "m"}, r"mask and lengths must be different"),
    ],
)
def test_wrong_paddings_are_refused(numbers, says):
    with pytest.raises(InvalidConfig, match=says):
        Padding(axis=0, **numbers)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"inputs": (DeclaredTensor(name="x", pad=Padding(axis=1)),)}, r"'x': pad.axis: must be from -1 to 0"),
        ({"inputs": (DeclaredTensor(name="x", ragged=True),), "max_batch_size": 0}, "needs a max_batch_size"),
        ({"batch_outputs": (BatchOutput(targets=("y",), source="z"),)}, "there is no input 'z'; the inputs are x"),
        ({"outputs": (DeclaredTensor(name="y", unpad=Unpadding(axis=0, input="z")),)}, "no input 'z'"),
        (
            {"batch_outputs": (BatchOutput(targets=("y",), source="x"),), "max_batch_size": 0},
            "batch_output need a max_batch_size",
        ),
    ],
)
def test_what_speaks_of_nothing_is_refused(spec, says):
    with pytest.raises(InvalidConfig, match=says):
        Model((tensor("x", -1, -1),), (tensor("y", -1, -1),), None, **spec)


def ragged(kind=BatchInputKind.ACCUMULATED_ELEMENT_COUNT, wrong=0):
    """Sums what lies between the accumulated counts; and doubles everything."""

    def compute(x, ends):
        starts = [0, *ends.astype(int).ravel()[:-1]]
        sums = [x[start:end].sum() for start, end in zip(starts, ends.astype(int).ravel(), strict=True)]
        return {"sum": np.array(sums)[:, None], "twice": 2 * x[wrong:]}

    return Model(
        (tensor("x", -1), tensor("ends", -1)),
        (tensor("sum", -1, 1), tensor("twice", -1)),
        compute,
        inputs=(DeclaredTensor(name="x", dims=(-1,), ragged=True),),
        outputs=(DeclaredTensor(name="sum", dims=(1,)), DeclaredTensor(name="twice", dims=(-1,))),
        batch_inputs=(BatchInput(kind=kind, targets=("ends",), source="x", datatype=DataType.FP32),),
        batch_outputs=(BatchOutput(targets=("twice",), source="x"),),
    )


def test_a_ragged_batch_has_all_elements_in_one_row_and_counts_to_tell_them_apart():
    model = ragged()
    assert [each.name for each in model.offer.inputs] == ["x"]
    assert model.infer({"x": floats([1, 2])}, {"x": floats([3, 4, 5])}, {"x": floats([6])}) == [
        {"sum": [[3]], "twice": [[2, 4]]},
        {"sum": [[12]], "twice": [[6, 8, 10]]},
        {"sum": [[6]], "twice": [[12]]},
    ]
    assert model.seen[-1]["x"].tolist() == [1, 2, 3, 4, 5, 6]
    assert model.seen[-1]["ends"].tolist() == [2, 5, 6]
    assert model.infer({"x": floats([1, 2])}, {"x": floats([3])}, outputs=("sum",)) == [{"sum": [[3]]}, {"sum": [[3]]}]


def test_a_scattered_output_of_another_size_is_an_error_and_not_somebody_elses_data():
    with pytest.raises(ModelError, match="output 'twice' has 4 elements, which is not what the shapes of input 'x'"):
        ragged(wrong=1).infer({"x": floats([1, 2])}, {"x": floats([3, 4, 5])})


SHAPES = [(2, 3, 1), (1, 2, 2)]


@pytest.mark.parametrize(
    ("kind", "values", "shape"),
    [
        ("ELEMENT_COUNT", [6, 4], (2,)),
        ("ACCUMULATED_ELEMENT_COUNT", [6, 10], (2,)),
        ("ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", [0, 6, 10], (3,)),
        ("MAX_ELEMENT_COUNT_AS_SHAPE", [0] * 6, (6,)),
        ("ITEM_SHAPE", [3, 1, 3, 1, 2, 2], (3, 2)),
        ("ITEM_SHAPE_FLATTEN", [3, 1, 3, 1, 2, 2], (6,)),
    ],
)
def test_batch_inputs_are_those_of_triton(kind, values, shape):
    assert batch_input_values(BatchInputKind[kind], SHAPES) == (values, shape)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.lists(st.floats(-9, 9, width=32), min_size=1, max_size=6), min_size=1, max_size=2), max_size=4)
)
def test_padding_changes_no_answer(requests):
    model = padded(Padding(axis=0, mask="m"), Unpadding(axis=0, input="x"))
    arrays = [np.array([row[: min(map(len, rows))] for row in rows], np.float32) for rows in requests]
    together = model.infer(*({"x": array} for array in arrays)) if arrays else []
    for array, answer in zip(arrays, together, strict=True):
        assert answer["y"] == (array + np.float32(1)).tolist()

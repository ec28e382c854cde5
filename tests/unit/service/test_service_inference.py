"""Binary messages of the Open Inference Protocol, as tritonclient writes and reads them; tensors of torch."""

import dataclasses
from typing import Annotated

import numpy as np
import pytest
import tritonclient.http as triton
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import trilith
from trilith.errors import InvalidInput, UnsupportedMediaType
from trilith.service import spec_of
from trilith.service.codecs.inference import InferenceCodec, reads_messages

LENGTH = "inference-header-content-length"


@dataclasses.dataclass
class Both:
    sums: NDArray[np.float64]
    count: NDArray[np.int64]


@trilith.service
class Sums:
    @trilith.api
    async def add(self, a: NDArray[np.float32], b: NDArray[np.float32], times: int = 1) -> NDArray[np.float32]:
        return (a + b) * np.float32(times)

    @trilith.api
    def both(self, x: Annotated[NDArray[np.float64], trilith.Shape(None, 2)]) -> Both:
        return Both(x.sum(axis=1), np.array([len(x)]))

    @trilith.api(batch=trilith.Batch())
    async def twice(self, x: list[np.ndarray]) -> list[np.ndarray]:
        return [one * 2 for one in x]

    @trilith.api
    async def text(self, x: NDArray[np.float32]) -> str:
        return str(x.shape)


def message(parameters: dict | None = None, **arrays: np.ndarray) -> tuple[bytes, int]:
    inputs = []
    for name, array in arrays.items():
        tensor = triton.InferInput(name, list(array.shape), triton.InferInput("x", [1], "FP32").datatype())
        tensor = triton.InferInput(name, list(array.shape), DATATYPES[array.dtype.name])
        inputs.append(tensor.set_data_from_numpy(array))
    body, length = triton.InferenceServerClient.generate_request_body(inputs, parameters=parameters)
    return body, length or len(body)


DATATYPES = {
    "float32": "FP32",
    "float64": "FP64",
    "int64": "INT64",
    "bool": "BOOL",
    "uint8": "UINT8",
    "float16": "FP16",
}


def call(serve, method: str, body: bytes, length: object):
    """The outputs by name, as tritonclient reads them."""

    async def scenario(hosted):
        made, future = hosted.make(method, body, "application/octet-stream")
        made.meta = type(made.meta)(
            *(getattr(made.meta, name) for name in made.meta.__struct_fields__[:4]), {LENGTH: str(length)}
        )
        hosted.host.handle(made)
        return await future

    answer = serve(Sums, scenario)
    headers = dict(answer.meta.headers)
    result = triton.InferenceServerClient.parse_response_body(answer.body, header_length=int(headers[LENGTH]))
    return {one["name"]: result.as_numpy(one["name"]) for one in result.get_response()["outputs"]}


def test_arrays_in_and_out(serve):
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    assert call(serve, "add", *message(a=a, b=b))["result"].tolist() == [4.0, 6.0]
    assert call(serve, "add", *message({"times": 2}, a=a, b=b))["result"].tolist() == [8.0, 12.0]
    found = call(serve, "both", *message(x=np.array([[1, 2], [3, 4]], np.float64)))
    assert {name: array.tolist() for name, array in found.items()} == {"sums": [3.0, 7.0], "count": [2]}
    assert call(serve, "twice", *message(x=np.array([True, False])))["result"].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("body", "length", "text"),
    [
        (*message(a=np.zeros(2, np.float32)), "lacks the input `b`"),
        (*message(a=np.zeros(2, np.float32), c=np.zeros(2, np.float32)), "unknown input `c`"),
        (*message(a=np.full(2, 1e300), b=np.zeros(2, np.float32)), "a: expected float32, at most"),
        (*message({"times": "two"}, a=np.zeros(1, np.float32), b=np.zeros(1, np.float32)), "times: .*integer"),
        (*message({"a": 3}, b=np.zeros(1, np.float32)), "a: expected it among the message's `inputs`"),
        (b"{}", 9, "only 2 bytes"),
        (b"{}", -1, "integer >= 0"),
        (b"{}", 2, "inputs"),
        (
            message(a=np.zeros(2, np.float32))[0][:-1],
            message(a=np.zeros(2, np.float32))[1],
            "additional bytes|unexpected size",
        ),
        (b'{"inputs":[{"name":"a","datatype":"BF16","shape":[0],"data":[]}]}', 66, "BF16"),
    ],
)
def test_wrong_messages(serve, body, length, text):
    with pytest.raises(InvalidInput, match=f"(?s)^Sums.add: .*({text})"):
        call(serve, "add", body, min(length, len(body)) if text == "BF16" else length)


def test_a_shape_is_asked_for_here_too(serve):
    with pytest.raises(InvalidInput, match=r"shape \(any, 2\), got \(3,\)"):
        call(serve, "both", *message(x=np.zeros(3)))
    with pytest.raises(UnsupportedMediaType):
        call(serve, "text", *message(x=np.zeros(3, np.float32)))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(DATATYPES)).flatmap(lambda name: hnp.arrays(name, hnp.array_shapes(max_side=3))))
def test_every_number_goes_in_and_out(array):
    signature = spec_of(Sums).methods["twice"].signature
    assert reads_messages(signature)
    codec = InferenceCodec(signature, "Sums.twice")
    body, length = message(x=array)
    [found] = codec.decode(body, str(length)).kwargs.values()
    assert found.dtype == array.dtype
    assert np.array_equal(found, array, equal_nan=array.dtype.kind == "f")
    written, length = codec.encode(array)
    back = triton.InferenceServerClient.parse_response_body(written, header_length=length).as_numpy("result")
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")

"""Random and damaged messages: each gives a call that is whole, or a refusal that blames the caller; nothing else.

Each property sees 300 inputs that hypothesis makes up. Beside them 50,000 valid messages are damaged at random, and
1,000,000 among the full tests; the seeds are fixed, so that a failure comes again.
"""

import gzip
import json
import math
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilith.core.request import InferResponse
from trilith.core.tensor import NUMPY_OF, DataType, TensorSpec
from trilith.errors import CallerError
from trilith.wire.oip_classification import classified
from trilith.wire.oip_compression import accepted_coding, content_coding, decompressed
from trilith.wire.oip_generate import decode_generate, encode_generate
from trilith.wire.oip_grpc import decode_request as decode_grpc
from trilith.wire.oip_grpc import encode_response as encode_grpc
from trilith.wire.oip_grpc import parse
from trilith.wire.oip_http import decode_request, encode_response
from trilith.wire.oip_messages import service_messages
from trilith.wire.oip_tensor import Signature, array_from_raw, checked_count

INPUTS = 300
SIGNATURES = {
    datatype: Signature.of(
        "m",
        [TensorSpec(name="A", datatype=datatype, shape=(-1, -1))],
        [TensorSpec(name="A", datatype=datatype, shape=(-1, -1))],
        8,
    )
    for datatype in DataType
}
DATATYPES = st.sampled_from(list(DataType))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.integers(-2, 300)
    | st.floats()
    | st.text(max_size=4)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner), max_leaves=12
)
PARAMETERS = st.dictionaries(
    st.sampled_from(
        [
            "binary_data_size",
            "binary_data",
            "binary_data_output",
            "classification",
            "priority",
            "timeout",
            "sequence_id",
            "sequence_start",
            "triton_x",
            "own",
            "shared_memory_region",
        ]
    ),
    SCALARS | st.integers(0, 20),
    max_size=3,
)
TENSORS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["A", "B", ""]) | SCALARS,
        "datatype": DATATYPES.map(str) | SCALARS,
        "shape": st.lists(st.integers(-1, 4) | SCALARS, max_size=4) | VALUES,
        "data": st.lists(SCALARS, max_size=6) | VALUES,
        "parameters": PARAMETERS | VALUES,
    },
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=3) | SCALARS,
        "inputs": st.lists(TENSORS, max_size=3) | VALUES,
        "outputs": st.lists(TENSORS, max_size=3) | VALUES,
        "parameters": PARAMETERS | VALUES,
    },
)


def search(*strategies):
    """Decorates a property."""
    checks = settings(max_examples=INPUTS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    return lambda check: checks(given(*strategies)(check))


def whole(call, signature, datatype):
    """A call that passed: its tensors are what the protocol says, and an answer with them is written, or refused."""
    for name, array in call.request.inputs.items():
        assert array.size == math.prod(array.shape)
        assert array.dtype == NUMPY_OF[datatype] or name != "A"
    response = InferResponse(model="m", version="1", id=call.request.id, outputs=dict(call.request.inputs))
    try:
        response.outputs = classified(response.outputs, call.classes, signature)
        body, length = encode_response(response, signature, call)
        assert length is None or length <= len(body)
        encode_grpc(response, signature)
        encode_generate(response, signature)
    except CallerError:
        return


def damaged(body, edits):
    """The body with some bytes overwritten, inserted or cut."""
    edited = bytearray(body)
    for kind, at, value in edits:
        at %= len(edited) + 1
        if kind == 0 and at < len(edited):
            edited[at] = value
        elif kind == 1:
            edited.insert(at, value)
        else:
            del edited[at : at + value % 8]
    return bytes(edited)


EDITS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1 << 16), st.integers(0, 255)), max_size=6)


@search(MESSAGES, DATATYPES, EDITS, st.none() | st.integers(-1, 400), st.binary(max_size=24))
def test_json(message, datatype, edits, length, blob):
    body = damaged(json.dumps(message).encode() + blob, edits)
    header = None if length is None else str(length).encode()
    try:
        call = decode_request(body, SIGNATURES[datatype], json_length=header)
    except CallerError:
        return
    whole(call, SIGNATURES[datatype], datatype)


@search(
    DATATYPES,
    st.lists(st.integers(0, 5), max_size=4),
    st.binary(max_size=60),
    st.integers(-8, 8),
    st.integers(-3, 3) | st.none(),
)
def test_binary(datatype, shape, blob, size_lie, length_lie):
    tensor = {"name": "A", "datatype": datatype, "shape": shape}
    text = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(blob) + size_lie}}]}).encode()
    header = b"0" if length_lie is None else b"%d" % (len(text) + length_lie)
    try:
        call = decode_request(text + blob, SIGNATURES[datatype], json_length=header)
    except CallerError:
        return
    whole(call, SIGNATURES[datatype], datatype)


@search(st.binary(max_size=300), st.none() | st.binary(max_size=8))
def test_any_bytes_as_a_body(body, header):
    for read in (
        lambda: decode_request(body, SIGNATURES[DataType.FP32], json_length=header),
        lambda: decode_generate(body, SIGNATURES[DataType.BYTES]),
        lambda: decompressed(body, b"deflate", 1000),
        lambda: content_coding(body),
    ):
        try:
            read()
        except CallerError:
            continue
    accepted_coding(body)


@search(st.dictionaries(st.sampled_from(["A", "id", "parameters", "x"]), VALUES), DATATYPES)
def test_generate(message, datatype):
    try:
        call = decode_generate(json.dumps(message).encode(), SIGNATURES[datatype])
    except CallerError:
        return
    whole(call, SIGNATURES[datatype], datatype)


@search(
    DATATYPES,
    st.lists(st.integers(-1, 1 << 40), max_size=5) | st.lists(st.integers(0, 4)),
    st.binary(max_size=80),
)
def test_raw_tensors(datatype, shape, raw):
    try:
        array = array_from_raw(SIGNATURES[datatype], "A", datatype, tuple(shape), checked_count("A", shape), raw)
    except CallerError:
        return
    assert array.shape == tuple(shape)
    assert array.dtype == NUMPY_OF[datatype]


def grpc_message(datatype, shape, raw, contents, parameters, lists):
    message = service_messages().ModelInferRequest(model_name="m", id="i")
    for _ in range(lists):
        tensor = message.inputs.add(name="A", datatype=datatype, shape=shape)
        if contents is not None:
            getattr(tensor.contents, contents).extend([b"1"] if contents == "bytes_contents" else [1])
        message.outputs.add(name="A").parameters["classification"].int64_param = lists
    if raw is not None:
        message.raw_input_contents.append(raw)
    for name, value in parameters.items():
        message.parameters[name].int64_param = value
    return message.SerializeToString()


fields = service_messages().InferTensorContents.DESCRIPTOR.fields_by_name


@search(
    DATATYPES,
    st.lists(st.integers(-1, 5), max_size=4),
    st.none() | st.binary(max_size=40),
    st.none() | st.sampled_from(list(fields)),
    st.dictionaries(st.sampled_from(["priority", "timeout", "sequence_id", "own"]), st.integers(-1, 1 << 40)),
    st.integers(0, 2),
    EDITS,
)
def test_protobuf(datatype, shape, raw, contents, parameters, lists, edits):
    body = damaged(grpc_message(datatype, shape, raw, contents, parameters, lists), edits)
    try:
        call = decode_grpc(parse("ModelInferRequest", body), SIGNATURES[datatype])
    except CallerError:
        return
    whole(call, SIGNATURES[datatype], datatype)


@search(
    st.sampled_from([DataType.FP16, DataType.FP32, DataType.BF16, DataType.UINT64]),
    st.binary(max_size=64),
    st.integers(1, 1 << 64),
)
def test_classes_of_any_numbers(datatype, raw, count):
    dtype = NUMPY_OF[datatype]
    array = np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype).reshape(1, -1)
    found = classified({"A": array}, {"A": count}, SIGNATURES[datatype])["A"]
    assert found.shape == (1, min(count, array.size))


def corpus():
    """Valid messages of every kind, and how each is read."""
    json_body = json.dumps(
        {
            "id": "i",
            "inputs": [{"name": "A", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2.5], [3, -4e3]]}],
            "outputs": [{"name": "A", "parameters": {"classification": 1, "binary_data": True}}],
            "parameters": {"priority": 1, "timeout": 5, "own": "x"},
        }
    ).encode()
    tensor = {"name": "A", "datatype": "BYTES", "shape": [1, 2], "parameters": {"binary_data_size": 11}}
    text = json.dumps({"inputs": [tensor]}).encode()
    binary = text + b"\x02\0\0\0ab\x01\0\0\0c"
    floats, texts = SIGNATURES[DataType.FP32], SIGNATURES[DataType.BYTES]
    raw = grpc_message(DataType.FP32, [2, 2], bytes(16), None, {"priority": 1}, 1)
    typed = grpc_message(DataType.BYTES, [1, 1], None, "bytes_contents", {"own": 1}, 1)
    yield DataType.FP32, json_body, lambda body: decode_request(body, floats)
    yield DataType.BYTES, binary, lambda body: decode_request(body, texts, json_length=b"%d" % len(text))
    yield DataType.FP32, bytes(16), lambda body: decode_request(body, floats, json_length=b"0")
    yield DataType.BYTES, b'{"A": ["a", "b"], "id": "i", "x": 1.5}', lambda body: decode_generate(body, texts)
    yield DataType.FP32, raw, lambda body: decode_grpc(parse("ModelInferRequest", body), floats)
    yield DataType.BYTES, typed, lambda body: decode_grpc(parse("ModelInferRequest", body), texts)
    yield (
        DataType.FP32,
        gzip.compress(json_body, mtime=0),
        lambda body: decode_request(decompressed(body, b"gzip", 10_000), floats),
    )


@pytest.mark.parametrize("inputs", [50_000, pytest.param(1_000_000, marks=pytest.mark.full)])
def test_damaged_messages(inputs):
    source = random.Random(inputs)
    known = list(corpus())
    passed = 0
    for datatype, body, read in known:
        whole(read(body), SIGNATURES[datatype], datatype)
    for at in range(inputs):
        datatype, body, read = known[at % len(known)]
        edits = [
            (source.randrange(3), source.randrange(1 << 16), source.choice((*b'[]{}",:0-9eE\\', source.randrange(256))))
            for _ in range(source.randint(1, 4))
        ]
        try:
            call = read(damaged(body, edits))
        except CallerError:
            continue
        passed += 1
        whole(call, SIGNATURES[datatype], datatype)
    assert inputs / 50 < passed < inputs / 2

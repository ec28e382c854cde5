"""The values that a model gets and makes. No process, no server."""

import asyncio
import inspect
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import error_from_code
from trilith.runtime.backends.python import pb_utils
from trilith.runtime.backends.python.packing import RequestHead
from trilith.runtime.backends.python.pb_utils.errors import WIRE_CODES
from trilith.runtime.backends.python.pb_utils.sender import ReplyHandle
from trilith.wire.grpc_status import GrpcStatus, grpc_status


def test_tensor_tells_what_it_is():
    array = np.zeros((2, 3), np.float16)
    tensor = pb_utils.Tensor("x", array)
    assert (tensor.name(), tensor.shape(), tensor.is_cpu()) == ("x", [2, 3], True)
    assert tensor.triton_dtype() == pb_utils.numpy_to_triton_type(np.float16) == 10
    assert tensor.as_numpy() is array


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([1 + 2j]), np.array([np.datetime64(0, "s")])])
def test_what_is_no_tensor_is_refused_with_its_name(array):
    with pytest.raises(pb_utils.TritonModelException, match="Tensor 'x'"):
        pb_utils.Tensor("x", array)


def test_text_is_refused_with_tritons_words():
    with pytest.raises(pb_utils.TritonModelException, match=r"Please use np\.object_ instead"):
        pb_utils.Tensor("x", np.array(["text"]))


def test_a_list_is_no_array():
    with pytest.raises(pb_utils.TritonModelException, match="expected a numpy array, got list"):
        pb_utils.Tensor("x", [1, 2])


def test_dlpack_shares_memory_both_ways():
    array = np.arange(6, dtype=np.int32)
    tensor = pb_utils.Tensor("x", array)
    there = np.from_dlpack(tensor)
    array[0] = 7
    assert there[0] == 7
    back = pb_utils.Tensor.from_dlpack("y", tensor)
    assert back.as_numpy().tolist() == array.tolist()
    assert tensor.__dlpack_device__() == (1, 0)


def test_dlpack_has_no_text():
    with pytest.raises(pb_utils.TritonModelException, match="string tensors"):
        pb_utils.Tensor("x", np.array([b"a"], object)).to_dlpack()


def test_request_gives_what_came():
    head = RequestHead([], ("y",), "id-1", {"key": 1}, 42, 5000, 0, 1)
    request = pb_utils.InferenceRequest.received(head, [pb_utils.Tensor("x", np.ones(1))], lambda: True)
    assert request.request_id() == "id-1"
    assert request.correlation_id() == 42
    assert request.timeout() == 5000
    assert request.flags() == pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
    assert json.loads(request.parameters()) == {"key": 1}
    assert request.requested_output_names() == ["y"]
    assert request.is_cancelled()
    assert pb_utils.get_input_tensor_by_name(request, "x").shape() == [1]
    assert pb_utils.get_input_tensor_by_name(request, "z") is None


def test_a_request_that_a_model_makes_is_not_cancelled():
    request = pb_utils.InferenceRequest("r", 0, [pb_utils.Tensor("x", np.ones(1))], ["y"], "m")
    assert not request.is_cancelled()
    assert json.loads(request.parameters()) == {}


def test_what_is_not_offered_says_so():
    request = pb_utils.InferenceRequest()
    with pytest.raises(pb_utils.TritonModelException, match="not supported"):
        request.exec()
    with pytest.raises(pb_utils.TritonModelException, match="not supported"):
        asyncio.run(request.async_exec())
    with pytest.raises(pb_utils.TritonModelException, match="nobody asked this request"):
        request.get_response_sender()


def test_response_holds_outputs_errors_and_parameters():
    response = pb_utils.InferenceResponse([pb_utils.Tensor("y", np.ones(1))], parameters={"n": 1})
    assert not response.has_error()
    assert json.loads(response.parameters()) == {"n": 1}
    assert pb_utils.get_output_tensor_by_name(response, "y") is response.output_tensors()[0]
    assert pb_utils.get_output_tensor_by_name(response, "z") is None
    failed = pb_utils.InferenceResponse(error=pb_utils.TritonError("no", pb_utils.TritonError.NOT_FOUND))
    assert failed.has_error()
    assert failed.error().message() == "no"


def test_response_refuses_what_cannot_be_sent():
    with pytest.raises(pb_utils.TritonModelException, match="list of Tensor"):
        pb_utils.InferenceResponse([np.ones(1)])
    with pytest.raises(pb_utils.TritonModelException, match="TritonError"):
        pb_utils.InferenceResponse(error="text")
    with pytest.raises(pb_utils.TritonModelException, match="parameter 'n'"):
        pb_utils.InferenceResponse([], parameters={"n": [1]})


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("UNKNOWN", GrpcStatus.UNKNOWN),
        ("INTERNAL", GrpcStatus.INTERNAL),
        ("NOT_FOUND", GrpcStatus.NOT_FOUND),
        ("INVALID_ARG", GrpcStatus.INVALID_ARGUMENT),
        ("UNAVAILABLE", GrpcStatus.UNAVAILABLE),
        ("UNSUPPORTED", GrpcStatus.UNIMPLEMENTED),
        ("ALREADY_EXISTS", GrpcStatus.ALREADY_EXISTS),
        ("CANCELLED", GrpcStatus.CANCELLED),
    ],
)
def test_every_code_becomes_its_status(name, status):
    error = pb_utils.TritonError("m", getattr(pb_utils.TritonError, name))
    assert grpc_status(error_from_code(WIRE_CODES[error.code()], "m")) is status


def test_datatypes_by_every_name():
    assert pb_utils.triton_string_to_numpy("TYPE_FP32") is np.float32
    assert pb_utils.triton_string_to_numpy("TYPE_STRING") is np.object_
    for number in range(1, 14):
        assert pb_utils.numpy_to_triton_type(pb_utils.triton_to_numpy_type(number)) == number
    assert pb_utils.triton_to_numpy_type(99) is None
    assert pb_utils.numpy_to_triton_type(np.bytes_) == 13
    with pytest.raises(pb_utils.TritonModelException, match="TYPE_BF16"):
        pb_utils.triton_string_to_numpy("TYPE_BF16")


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=20))
def test_bytes_survive_serialization(elements):
    array = np.empty(len(elements), object)
    array[:] = elements
    raw = pb_utils.serialize_byte_tensor(array)
    assert pb_utils.deserialize_bytes_tensor(raw).tolist() == elements
    with pytest.raises(pb_utils.TritonModelException, match="middle of an element"):
        pb_utils.deserialize_bytes_tensor(raw + b"\x01\x00")


def test_text_is_serialized_as_utf8_and_nothing_gives_none():
    assert pb_utils.serialize_byte_tensor(np.array(["é"], object)) == b"\x02\x00\x00\x00\xc3\xa9"
    assert pb_utils.serialize_byte_tensor(np.array([], object)) is None
    assert pb_utils.serialize_byte_tensor(np.ones(1)) is None


def test_configuration_is_completed():
    config = pb_utils.ModelConfig({"name": "m", "max_batch_size": 0, "input": [], "output": []})
    config.set_max_batch_size(8)
    config.set_dynamic_batching()
    config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [4]})
    config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [4]})  # the same again
    config.add_output({"name": "y", "data_type": "TYPE_STRING", "dims": (-1,)})
    config.set_model_transaction_policy({"decoupled": False})
    found = config.as_dict()
    assert (found["max_batch_size"], found["dynamic_batching"]) == (8, {})
    assert pb_utils.get_input_config_by_name(found, "x")["dims"] == [4]
    assert pb_utils.get_output_config_by_name(found, "y")["data_type"] == "TYPE_STRING"
    assert pb_utils.get_output_config_by_name(found, "z") is None
    assert not pb_utils.using_decoupled_model_transaction_policy(found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda config: config.set_max_batch_size(2), "max_batch_size 4.*max_batch_size 2"),
        (lambda config: config.add_input({"name": "x", "data_type": "TYPE_INT8", "dims": [4]}), "TYPE_FP32.*TYPE_INT8"),
        (lambda config: config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [5]}), r"\[4\].*\[5\]"),
        (lambda config: config.add_output({"name": "y", "dims": [4]}), "lacks the property 'data_type'"),
        (lambda config: config.add_output({"name": "y", "shape": [4]}), "unknown property 'shape'"),
        (lambda config: config.set_model_transaction_policy({"coupled": True}), "unknown property 'coupled'"),
    ],
)
def test_what_the_configuration_says_stays(change, words):
    given_input = {"name": "x", "data_type": "TYPE_FP32", "dims": [4]}
    config = pb_utils.ModelConfig({"name": "m", "max_batch_size": 4, "input": [given_input]})
    with pytest.raises(pb_utils.TritonModelException, match=words):
        change(config)


def test_metrics_keep_to_their_kind():
    counter = pb_utils.MetricFamily("c", "text", pb_utils.MetricFamily.COUNTER).Metric({"a": "b"})
    counter.increment(2)
    counter.increment(1)
    assert counter.value() == 3
    gauge = pb_utils.MetricFamily("g", "text", pb_utils.MetricFamily.GAUGE).Metric()
    gauge.set(5)
    gauge.increment(-2)
    assert gauge.value() == 3
    histogram = pb_utils.MetricFamily("h", "text", pb_utils.MetricFamily.HISTOGRAM).Metric(buckets=[1, 2])
    histogram.observe(1.5)
    for wrong in (
        lambda: counter.increment(-1),
        lambda: counter.set(1),
        lambda: counter.observe(1),
        lambda: histogram.increment(1),
        histogram.value,
        lambda: pb_utils.MetricFamily("h", "t", pb_utils.MetricFamily.HISTOGRAM).Metric(),
        lambda: pb_utils.MetricFamily("h", "t", pb_utils.MetricFamily.HISTOGRAM).Metric(buckets=[2, 1]),
        lambda: pb_utils.MetricFamily("c", "t").Metric({"a": 1}),
    ):
        with pytest.raises(pb_utils.TritonModelException):
            wrong()


def test_logger_without_a_server_writes_to_logging(caplog):
    with caplog.at_level("INFO"):
        pb_utils.Logger.log_warn("careful")
        pb_utils.Logger.log("said", pb_utils.LogLevel.INFO)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "careful"),
        ("INFO", "said"),
    ]


def test_a_sender_sends_one_response():
    final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
    response = pb_utils.InferenceResponse([])
    handle = ReplyHandle()
    sender, reply = pb_utils.InferenceResponseSender(lambda: False, handle), handle.reply
    sent = []
    reply.when_ended(lambda: sent.append(reply.response))
    for arguments, words in (
        ((response, 2), "Unsupported flag"),
        ((None, 0), "must be provided when the response flags is set to zero"),
        ((None, final), "cannot send complete final before sending a response"),
        ((7, 0), "Expected an InferenceResponse, got int"),
    ):
        with pytest.raises(pb_utils.TritonModelException, match=words):
            sender.send(*arguments)
    assert sent == []
    sender.send(response)
    assert sent == [response]
    with pytest.raises(pb_utils.TritonModelException, match="cannot send more than one response"):
        sender.send(response)
    sender.send(flags=final)
    with pytest.raises(pb_utils.TritonModelException, match="has been closed"):
        sender.send(flags=final)
    reply.when_ended(lambda: sent.append("at once"))
    assert sent == [response, "at once"]
    del handle, sender
    assert not reply.lost
    assert len(sent) == 2


def test_a_reply_is_lost_when_nothing_is_left_to_send_it_by():
    request = pb_utils.InferenceRequest.received(RequestHead([], ("y",)), [], lambda: False)
    assert request.reply is None
    first = request.get_response_sender()
    reply, ended = request.reply, []
    reply.when_ended(lambda: ended.append(reply.response))
    second = request.get_response_sender()
    del request, first
    assert ended == []
    del second
    assert (reply.lost, ended) == (True, [None])
    reply.when_ended(lambda: ended.append("at once"))
    assert ended == [None, "at once"]


# Every public name of Triton's module and of its classes, but those of decoupled models and of BLS.
SURFACE = {
    "": (
        "TRITON_STRING_TO_NUMPY serialize_byte_tensor deserialize_bytes_tensor get_input_tensor_by_name "
        "get_output_tensor_by_name get_input_config_by_name get_output_config_by_name "
        "using_decoupled_model_transaction_policy triton_to_numpy_type numpy_to_triton_type triton_string_to_numpy "
        "ModelConfig TritonError PreferredMemory MemoryType TRITONSERVER_MEMORY_CPU TRITONSERVER_MEMORY_GPU "
        "InferenceTrace InferenceRequest InferenceResponse Tensor Logger Metric MetricKind MetricFamily COUNTER GAUGE "
        "HISTOGRAM load_model unload_model is_model_ready TritonModelException "
        "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START TRITONSERVER_REQUEST_FLAG_SEQUENCE_END "
        "TRITONSERVER_RESPONSE_COMPLETE_FINAL TRITONSERVER_REQUEST_RELEASE_ALL TRITONSERVER_REQUEST_RELEASE_RESCHEDULE"
    ),
    "ModelConfig": (
        "as_dict set_max_batch_size set_dynamic_batching add_input add_output set_model_transaction_policy"
    ),
    "TritonError": (
        "UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED code message"
    ),
    "TritonModelException": "message",
    "MemoryType": "TRITONSERVER_MEMORY_CPU TRITONSERVER_MEMORY_GPU",
    "InferenceTrace": "get_context",
    "InferenceRequest": (
        "inputs request_id correlation_id flags set_flags timeout parameters trace exec async_exec "
        "requested_output_names get_response_sender is_cancelled set_release_flags preferred_memory"
    ),
    "InferenceResponse": "output_tensors has_error error parameters",
    "Tensor": "name as_numpy triton_dtype to_dlpack is_cpu shape from_dlpack __dlpack__ __dlpack_device__",
    "Logger": "LogLevel INFO WARNING ERROR VERBOSE log log_info log_warn log_error log_verbose",
    "Metric": "increment set observe value",
    "MetricKind": "COUNTER GAUGE HISTOGRAM",
    "MetricFamily": "COUNTER GAUGE HISTOGRAM Metric",
}


@pytest.mark.parametrize("owner", SURFACE)
def test_every_name_of_tritons_module_is_there(owner):
    holder = getattr(pb_utils, owner) if owner else pb_utils
    assert [name for name in SURFACE[owner].split() if not hasattr(holder, name)] == []


def test_levels_are_named_on_the_logger_as_the_readme_of_triton_writes_them(caplog):
    logger = pb_utils.Logger
    with caplog.at_level("DEBUG", "triton_python_backend_utils"):
        for level in (logger.INFO, logger.WARNING, logger.ERROR, logger.VERBOSE):
            logger.log("Specific Msg!", level)
        logger.log("Info Msg!")
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "ERROR", "DEBUG", "INFO"]


def test_arguments_come_in_tritons_order():
    request = pb_utils.InferenceRequest("id", 7, [], ["y"], "m", 2, 1, 5)
    assert (request.request_id(), request.correlation_id(), request.requested_output_names()) == ("id", 7, ["y"])
    assert (request.model_name, request.model_version, request.flags(), request.timeout()) == ("m", 2, 1, 5)
    assert request.trace().get_context() is None
    assert list(inspect.signature(pb_utils.load_model).parameters) == ["model_name", "config", "files"]

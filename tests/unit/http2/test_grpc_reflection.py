"""Health and reflection in octets, against the messages that other packages generate from the same schemas."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from trilith.errors import InvalidInput
from trilith.wire.grpc_health import ServingStatus, check_response, health_messages, read_check_request
from trilith.wire.grpc_reflection import EDITIONS, DescriptorIndex, answer, reflection_messages
from trilith.wire.oip_messages import service_messages

INFERENCE = "inference.GRPCInferenceService"


def index():
    inference = service_messages().DESCRIPTOR.services_by_name["GRPCInferenceService"]
    return DescriptorIndex([inference, health_messages().service])


def ask(edition="v1alpha", **request):
    octets = reflection_pb2.ServerReflectionRequest(host="h", **request).SerializeToString()
    response = reflection_pb2.ServerReflectionResponse.FromString(answer(index(), edition, octets))
    assert response.valid_host == "h"
    assert response.original_request == reflection_pb2.ServerReflectionRequest(host="h", **request)
    return response


def fields(descriptor):
    return {
        (each.name, each.number, each.type, each.is_repeated, each.containing_oneof and each.containing_oneof.name)
        for each in descriptor.fields
    }


def test_our_schemas_are_those_that_others_generate():
    pairs = [(reflection_messages("v1alpha").service.file, reflection_pb2.DESCRIPTOR)]
    pairs.append((health_messages().service.file, health_pb2.DESCRIPTOR))
    for ours, theirs in pairs:
        assert ours.package == theirs.package
        for name, message in ours.message_types_by_name.items():
            assert fields(message) == fields(theirs.message_types_by_name[name])
        for name, service in ours.services_by_name.items():
            for method in service.methods:
                other = theirs.services_by_name[name].methods_by_name[method.name]
                assert method.input_type.full_name == other.input_type.full_name
                assert (method.client_streaming, method.server_streaming) == (
                    other.client_streaming,
                    other.server_streaming,
                )


def test_health_messages_are_theirs():
    assert read_check_request(health_pb2.HealthCheckRequest(service="m/1").SerializeToString()) == "m/1"
    assert read_check_request(b"") == ""
    for status in ServingStatus:
        assert health_pb2.HealthCheckResponse.FromString(check_response(status)).status == status
    with pytest.raises(InvalidInput, match="HealthCheckRequest"):
        read_check_request(b"\xff")


@pytest.mark.parametrize("edition", EDITIONS)
def test_services_are_listed(edition):
    listed = [service.name for service in ask(edition, list_services="").list_services_response.service]
    assert listed == ["grpc.health.v1.Health", INFERENCE]


@pytest.mark.parametrize(
    ("symbol", "file"),
    [
        (INFERENCE, "grpc_service.proto"),
        (f"{INFERENCE}.ModelInfer", "grpc_service.proto"),
        ("inference.ModelInferRequest", "grpc_service.proto"),
        (".inference.ModelInferRequest", "grpc_service.proto"),
        ("inference.ModelInferRequest.InferInputTensor", "grpc_service.proto"),
        ("inference.ModelInferRequest.model_name", "grpc_service.proto"),
        ("inference.ModelConfig", "model_config.proto"),
        ("inference.DataType", "model_config.proto"),
        ("inference.TYPE_FP32", "model_config.proto"),
        ("grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"),
    ],
)
def test_the_file_of_a_symbol_comes_with_all_that_it_imports(symbol, file):
    octets = ask(file_containing_symbol=symbol).file_descriptor_response.file_descriptor_proto
    files = [FileDescriptorProto.FromString(each) for each in octets]
    assert files[0].name == file
    names = {each.name for each in files}
    assert all(needed in names for each in files for needed in each.dependency)
    assert list(ask(file_by_filename=file).file_descriptor_response.file_descriptor_proto) == list(octets)


@pytest.mark.parametrize(
    "request_",
    [
        {"file_containing_symbol": "no.Such"},
        {"file_containing_symbol": ""},
        {"file_by_filename": "../../etc/passwd"},
        {"all_extension_numbers_of_type": "no.Such"},
        {"file_containing_extension": {"containing_type": "inference.ModelConfig", "extension_number": 5}},
    ],
)
def test_what_is_not_there(request_):
    response = ask(**request_)
    assert response.error_response.error_code == 5
    assert next(iter(request_)) in response.error_response.error_message


def test_questions_without_a_question():
    assert ask().error_response.error_code == 3
    assert ask(all_extension_numbers_of_type="inference.ModelConfig").all_extension_numbers_response.base_type_name
    with pytest.raises(InvalidInput, match="ServerReflectionRequest"):
        answer(index(), "v1", b"\xff")


def test_a_restricted_health_asks_for_its_header():
    from grpc_memory import MemoryClient

    from trilith.errors import Forbidden
    from trilith.net.grpc import HealthService

    def admit(call):
        if call.header(b"x-key") != b"v":
            raise Forbidden("expecting header 'x-key'")

    health = HealthService(lambda service: True, admit=admit)
    client = MemoryClient(health.methods[b"/grpc.health.v1.Health/Check"])
    client.send(client.call(1, b""))
    assert client.answer()[0][b"grpc-status"] == b"7"
    client.send(client.call(3, b"", (b"x-key", b"v")))
    assert client.answer()[0][b"grpc-status"] == b"0"

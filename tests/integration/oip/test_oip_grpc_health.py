"""Health and reflection of a server of models."""

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.grpc, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield channel


@pytest.mark.parametrize("service", ["", "inference.GRPCInferenceService", "identity_fp32", "identity_fp32/1"])
def test_the_server_and_its_models_are_healthy(channel, service):
    stub = health_pb2_grpc.HealthStub(channel)
    assert stub.Check(health_pb2.HealthCheckRequest(service=service)).status == 1
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=10)
    assert next(watch).status == 1
    watch.cancel()


@pytest.mark.parametrize("service", ["nobody", "identity_fp32/9"])
def test_unknown_models_have_no_health(channel, service):
    stub = health_pb2_grpc.HealthStub(channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service=service))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert next(stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=10)).status == 3


def test_a_call_made_of_reflection(channel):
    from google.protobuf import message_factory

    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    method = pool.FindServiceByName("inference.GRPCInferenceService").methods_by_name["ModelReady"]
    request = message_factory.GetMessageClass(method.input_type)(name="identity_fp32")
    response_class = message_factory.GetMessageClass(method.output_type)
    octets = channel.unary_unary("/inference.GRPCInferenceService/ModelReady")(request.SerializeToString())
    assert response_class.FromString(octets).ready


def test_a_stream_of_inferences_is_refused_at_once(channel):
    call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")(iter(lambda: b"", None))
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "ModelStreamInfer is part of the protocol" in caught.value.details()

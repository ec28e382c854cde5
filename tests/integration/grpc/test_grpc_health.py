"""Health and reflection, with the clients that grpcio brings."""

import threading

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_app import RecordingApp
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from trilith.net.grpc import GrpcServices, HealthService, ReflectionService
from trilith.wire.grpc_health import health_messages
from trilith.wire.oip_messages import service_messages

STATUS = health_pb2.HealthCheckResponse


@pytest.fixture
def healthy(serve):
    """A server whose health is a dictionary."""

    def start(**known):
        health = {"": True, **known}
        inference = service_messages().DESCRIPTOR.services_by_name["GRPCInferenceService"]
        services = GrpcServices(
            RecordingApp(),
            HealthService(health.get, poll_s=0.01),
            ReflectionService([inference, health_messages().service]),
        )
        server = serve(services, streaming=services.streaming)
        server.health = health
        return server

    return start


def test_check(healthy, connect):
    channel = connect(healthy(sick=False).target)
    stub = health_pb2_grpc.HealthStub(channel)
    assert stub.Check(health_pb2.HealthCheckRequest()).status == STATUS.SERVING
    assert stub.Check(health_pb2.HealthCheckRequest(service="sick")).status == STATUS.NOT_SERVING
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="unknown"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert channel.unary_unary("/s/Echo")(b"beside it") == b"beside it"


def test_watch_tells_each_change_and_the_end(healthy, connect):
    server = healthy()
    stub = health_pb2_grpc.HealthStub(connect(server.target))
    whole = stub.Watch(health_pb2.HealthCheckRequest(), timeout=30)
    later = stub.Watch(health_pb2.HealthCheckRequest(service="later"), timeout=30)
    assert next(whole).status == STATUS.SERVING
    assert next(later).status == STATUS.SERVICE_UNKNOWN
    server.health["later"] = True
    assert next(later).status == STATUS.SERVING
    server.health[""] = False
    assert next(whole).status == STATUS.NOT_SERVING
    del server.health["later"]
    assert next(later).status == STATUS.SERVICE_UNKNOWN
    later.cancel()
    assert server.run(server.server.drain(20)) == 0  # a watch ends by itself
    with pytest.raises(grpc.RpcError) as caught:
        next(whole)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_hundred_watchers_and_no_poll_when_they_are_gone(healthy, connect):
    server = healthy()
    stub = health_pb2_grpc.HealthStub(connect(server.target))
    watches = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=30) for _ in range(100)]
    assert {next(watch).status for watch in watches} == {STATUS.SERVING}
    server.health[""] = False
    assert {next(watch).status for watch in watches} == {STATUS.NOT_SERVING}
    for watch in watches:
        watch.cancel()
    gone = threading.Event()
    while server.statistics.in_flight:
        gone.wait(0.01)
    [service] = {method.__self__ for method in server.app._methods.values() if hasattr(method, "__self__")}
    assert server.call_soon(lambda: (service._watchers, service._timer)) == ({}, None)


def test_a_client_builds_its_messages_from_reflection_alone(healthy, connect):
    channel = connect(healthy().target)
    database = ProtoReflectionDescriptorDatabase(channel)
    assert list(database.get_services()) == [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "inference.GRPCInferenceService",
    ]
    pool = DescriptorPool(database)
    service = pool.FindServiceByName("inference.GRPCInferenceService")
    infer = service.methods_by_name["ModelInfer"]
    assert "raw_input_contents" in infer.input_type.fields_by_name
    assert service.methods_by_name["ModelStreamInfer"].server_streaming
    assert pool.FindServiceByName("grpc.reflection.v1.ServerReflection").full_name
    with pytest.raises(KeyError):
        pool.FindMessageTypeByName("no.Such")

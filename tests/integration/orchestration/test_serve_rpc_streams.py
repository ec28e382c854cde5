"""Streaming methods over gRPC, of all kinds, with grpcio as the client."""

import contextlib
import itertools
import os
import threading

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from live_server import APPS, Server, environment

from trilith.service.proto.compiler import read_file
from trilith.wire.grpc_descriptors import read_descriptor_set

POOL, _ = read_descriptor_set(read_file(APPS / "rpc.proto", APPS, "test"))
SERVICE = "calls.v1.Streams"


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    given = {**environment(folder), "RPC_MARKS": str(folder / "marks")}
    server = Server([f"{APPS}/rpc.py:Streams", *ports], given)
    server.marks = folder / "marks"
    yield server.wait_ready()
    server.close()


@contextlib.contextmanager
def methods(server, *, pool=POOL, service=SERVICE, options=()):
    """The methods of a service, as stubs have them."""
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}", options=options) as found:
        declared = pool.FindServiceByName(service)

        def stub(name):
            rpc = declared.methods_by_name[name]
            sides = ("stream" if rpc.client_streaming else "unary", "stream" if rpc.server_streaming else "unary")
            return getattr(found, "_".join(sides))(
                f"/{service}/{name}",
                request_serializer=GetMessageClass(rpc.input_type).SerializeToString,
                response_deserializer=GetMessageClass(rpc.output_type).FromString,
            )

        yield stub


def made(name, **fields):
    return GetMessageClass(POOL.FindMessageTypeByName(f"calls.v1.{name}"))(**fields)


def sizes(*numbers):
    return (made("Size", size=number) for number in numbers)


@pytest.mark.parametrize("name", ["Count", "CountInThread"])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_one_message_in_and_many_out(streams, name, count):
    with methods(streams) as stub:
        assert [item.size for item in stub(name)(made("Size", size=count), timeout=30)] == list(range(count))


@pytest.mark.parametrize("name", ["Total", "TotalInThread"])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_many_in_and_one_out(streams, name, count):
    with methods(streams) as stub:
        assert stub(name)(sizes(*range(count)), timeout=30).size == sum(range(count))


def test_both_ways_at_once(streams):
    said, asked = threading.Semaphore(1), []

    def words():
        for number in range(50):
            said.acquire()
            asked.append(number)
            yield made("Word", word=f"w{number}")

    with methods(streams) as stub:
        answers = stub("Talk")(words(), timeout=30)
        for number, answer in enumerate(answers):
            assert answer.word == f"W{number}"
            assert len(asked) <= number + 2, "each answer came before the next question"
            said.release()
    assert len(asked) == 50


def test_headers_before_the_first_item_are_metadata(streams):
    with methods(streams) as stub:
        call = stub("Count")(made("Size", size=2), timeout=30)
        assert ("x-size", "2") in call.initial_metadata()
        assert len(list(call)) == 2


def test_a_failure_before_the_first_item_and_one_midway(streams):
    with methods(streams) as stub:
        with pytest.raises(grpc.RpcError) as caught:
            next(stub("Break")(made("Word", word="first"), timeout=30))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        call = stub("Break")(made("Word", word=""), timeout=30)
        assert [next(call).word, next(call).word] == ["one", "two"]
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "midway")


def test_a_message_of_a_stream_that_is_none(streams):
    def items():
        yield b"\x08\x01"
        yield b"\xff\xff"

    with grpc.insecure_channel(f"127.0.0.1:{streams.grpc}") as found, pytest.raises(grpc.RpcError) as caught:
        found.stream_unary(f"/{SERVICE}/Total")(items(), timeout=30)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "item 2" in caught.value.details()


@pytest.fixture
def forever(streams):
    for suffix in (".made", ".closed"):
        streams.marks.with_suffix(suffix).unlink(missing_ok=True)
    return streams


def test_a_client_that_goes_closes_the_generator(forever):
    with methods(forever) as stub:
        call = stub("Forever")(made("Size", size=10), timeout=30)
        assert len(list(itertools.islice(call, 5))) == 5
        call.cancel()
        forever.wait_until(forever.marks.with_suffix(".closed").exists)


def test_a_deadline_ends_a_stream(forever):
    with methods(forever) as stub:
        with pytest.raises(grpc.RpcError) as caught:
            list(stub("Forever")(made("Size", size=10), timeout=0.5))
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        forever.wait_until(forever.marks.with_suffix(".closed").exists)


def test_a_client_that_does_not_read_holds_the_generator(forever):
    with methods(forever, options=[("grpc.http2.lookahead_bytes", 65536)]) as stub:
        call = stub("Forever")(made("Size", size=100_000), timeout=30)
        next(call)
        made_mark = forever.marks.with_suffix(".made")
        seen = [-1, -2]

        def stands_still():
            seen.append(int(made_mark.read_text() or 0))
            return seen[-1] == seen[-12:][0] and len(seen) > 12

        forever.wait_until(stands_still)
        assert seen[-1] < 400, "40 MB were made for a client that reads nothing"
        other = stub("Count")(made("Size", size=3), timeout=30)
        assert len(list(other)) == 3, "others on the connection go on"
        call.cancel()


def test_a_replica_that_dies_with_a_stream(serve, tmp_path):
    server = serve(f"{APPS}/rpc.py:Streams")
    with methods(server) as stub:

        def words():
            yield made("Word", word="a")
            threading.Event().wait(30)

        call = stub("Talk")(words(), timeout=60)
        assert next(call).word == "A"
        [pid] = server.replica_pids("Streams")
        os.kill(pid, 9)
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_streams_from_annotations(serve, tmp_path):
    (tmp_path / "app.py").write_text(
        "from collections.abc import AsyncIterator\n\nimport trilith\n\n\n@trilith.service\nclass Words:\n"
        "    @trilith.api\n    async def talk(self, word: AsyncIterator[str]) -> AsyncIterator[str]:\n"
        "        async for one in word:\n            yield one[::-1]\n"
    )
    server = serve(f"{tmp_path}/app.py:Words")
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as found:
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(found))
        rpc = pool.FindServiceByName("words.Words").methods_by_name["Talk"]
        assert rpc.client_streaming
        assert rpc.server_streaming
        asked = GetMessageClass(rpc.input_type)
        with methods(server, pool=pool, service="words.Words") as stub:
            answers = stub("Talk")((asked(word=word) for word in ("abc", "de")), timeout=30)
            assert [answer.result for answer in answers] == ["cba", "ed"]

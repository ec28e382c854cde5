"""Methods over classes that protoc made, taken and given as they are: over gRPC, and as protobuf's JSON over HTTP."""

import asyncio
import json

import pytest
from rpc_service import PROTO, Kinds, message

import trilith
from trilith.errors import InvalidConfig, InvalidInput, ServiceError
from trilith.service import describe, openapi_document

# Of another pool than the service has, as those of an imported module are.
Turned, Line, Collection = (message(f"kinds.{name}") for name in ("v1.Turned", "Line", "v1.Collection"))


@trilith.service(proto="protos/kinds.proto", rpc="kinds.v1.Shapes")
class Shapes:
    @trilith.api
    async def Turn(self, request: Turned, /) -> Turned:
        assert type(request) is Turned
        return Turned(times=request.times + 1, text=request.text) if request.times else request


@trilith.service(proto="protos/kinds.proto", rpc="kinds.v1.Kinds")
class Mixed(Kinds):
    @trilith.api
    async def join(self, lines: list[Line]) -> str:
        assert all(type(line) is Line for line in lines)
        return " ".join(line.text for line in lines)

    @trilith.api
    async def collect(self, whole: Collection, /) -> Collection:
        return whole


def test_over_grpc(serve):
    made = message("kinds.v1.Turned", Shapes)
    asked = made(times=1, text={"joined": "x"})
    answered = serve(Shapes, lambda hosted: hosted.body("Turn", asked.SerializeToString(), PROTO))
    assert made.FromString(answered) == made(times=2, text={"joined": "x"})
    with pytest.raises(InvalidInput, match=r"Shapes\.Turn: the message is no kinds\.v1\.Turned"):
        serve(Shapes, lambda hosted: hosted.body("Turn", b"\xff", PROTO))


def test_inside_others(serve):
    asked = message("kinds.v1.Lines", Mixed)(lines=[{"text": "a"}, {"text": "b"}])
    answered = serve(Mixed, lambda hosted: hosted.body("join", asked.SerializeToString(), PROTO))
    assert message("kinds.v1.Text", Mixed).FromString(answered).joined == "a b"


def test_as_json(serve):
    body = json.dumps({"times": 1, "text": {"joined": "x"}}).encode()
    answered = serve(Shapes, lambda hosted: hosted.body("Turn", body))
    assert json.loads(answered) == {"times": 2, "text": {"joined": "x"}}
    for wrong in (b'{"times": "many"}', b'{"hours": 1}', b"[]", b'{"number": {}}'):
        with pytest.raises(InvalidInput, match=r"Shapes\.Turn"):
            serve(Shapes, lambda hosted, wrong=wrong: hosted.body("Turn", wrong))
    assert "/Turn" in openapi_document(describe(Shapes))["paths"]


def test_by_hand():
    assert asyncio.run(Shapes().Turn(Turned(times=3))).times == 4


def test_another_result_than_declared_is_the_services_fault(serve):
    @trilith.service(proto="protos/kinds.proto", rpc="kinds.v1.Shapes")
    class Wrong:
        @trilith.api
        async def turn(self, request: Turned, /) -> Turned:
            return Line(text="x")

    with pytest.raises(ServiceError):
        serve(Wrong, lambda hosted: hosted.body("turn", b"", PROTO))


def test_another_message_than_the_rpc_has():
    @trilith.service(proto="protos/kinds.proto", rpc="kinds.v1.Shapes")
    class Wrong:
        @trilith.api
        async def turn(self, request: Line, /) -> Turned:
            return Turned()

    with pytest.raises(InvalidConfig, match=r"it is the message kinds\.Line"):
        describe(Wrong)


def test_without_a_file_it_says_which_to_use():
    @trilith.service
    class Derived:
        @trilith.api
        async def turn(self, request: Turned, /) -> int:
            return 1

    [left_out] = Derived.__trilith_service__.grpc.left_out
    assert "comes from a .proto already: serve that one, by proto=" in left_out

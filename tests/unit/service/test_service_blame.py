"""Whose fault it was: what a nested call refuses is not what the outer client sent."""

import asyncio
import logging

import numpy as np
import pytest

import trilith
from trilith.core.tensor import DataType
from trilith.errors import (
    Cancelled,
    DeadlineExceeded,
    Draining,
    InvalidInput,
    ModelError,
    NoReadyReplica,
    NotFound,
    QueueFull,
    ReplicaLost,
    ServiceError,
    TrilithError,
    UnknownModel,
    Unsupported,
)
from trilith.service import ModelSignature, RemoteServiceCaller, ServiceHost, spec_of
from trilith.wire.calls import CallMeta

REFUSALS = [InvalidInput, NotFound, UnknownModel, Unsupported]
PASS = [DeadlineExceeded, QueueFull, NoReadyReplica, Draining, Cancelled, ModelError, ReplicaLost]


@trilith.service
class Inner:
    error: TrilithError = InvalidInput("no")

    @trilith.api
    async def fail(self, secret: str) -> str:
        raise Inner.error

    @trilith.api
    def fail_in_thread(self) -> str:
        raise Inner.error

    @trilith.api(batch=trilith.Batch(max_size=4))
    async def fail_together(self, xs: list[int]) -> list[int]:
        raise Inner.error


@trilith.service
class Outer:
    inner = trilith.depends(Inner)
    model = trilith.model("sums")

    @trilith.api
    async def awaits(self) -> str:
        return await self.inner.fail("x")

    @trilith.api
    def waits(self) -> str:
        return self.inner.fail_in_thread()

    @trilith.api
    async def joins(self) -> list[int]:
        return await asyncio.gather(*(self.inner.fail_together(x) for x in range(2)))

    @trilith.api
    async def infers(self) -> str:
        await self.model.infer({"x": np.zeros(1)})
        return ""

    @trilith.api
    async def too_many(self) -> str:
        await self.model(np.zeros(1), np.zeros(1))
        return ""

    @trilith.api
    async def handles(self) -> str:
        try:
            return await self.inner.fail("x")
        except TrilithError as error:
            return type(error).__name__

    @trilith.api
    async def translates(self) -> str:
        try:
            return await self.inner.fail("x")
        except TrilithError as error:
            raise InvalidInput("yours, after all") from error

    @trilith.api
    async def own(self) -> str:
        raise NotFound("no page of that number")


class Model:
    async def signature(self):
        return ModelSignature(inputs=(_Named("x"),), outputs=(_Named("y"),))

    async def infer(self, inputs):
        raise Inner.error


class _Named:
    datatype = DataType.FP64

    def __init__(self, name):
        self.name = name


class InProcess:
    """Services of this process; a model that fails."""

    def __init__(self, home):
        from trilith.service import InProcessResolver

        self._services = InProcessResolver(home=home)

    def service(self, spec):
        return self._services.service(spec)

    def model(self, reference, placement):
        return Model()


class Remote(InProcess):
    """Services behind a transport that brings their error back."""

    def service(self, spec):
        async def send(meta: CallMeta, buffers, context):
            raise type(Inner.error)(Inner.error.message, retry_after_s=Inner.error.retry_after_s)

        return RemoteServiceCaller(spec, send)


@pytest.fixture(params=[InProcess, Remote])
def outcome(request, hosted_type):
    """What the client of a method of `Outer` gets, when the nested call fails in some way."""

    def run(method, error, *, debug=False):
        async def main():
            host = ServiceHost(Outer, request.param(asyncio.get_running_loop()), debug=debug)
            await host.start()
            try:
                return await hosted_type(host).call(method)
            except TrilithError as found:
                return found
            finally:
                await host.stop()

        Inner.error = error
        return asyncio.run(main())

    return run


@pytest.mark.parametrize("method", ["awaits", "waits", "joins", "infers"])
@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_of_a_nested_call_is_the_services_failure(outcome, caplog, method, kind):
    found = outcome(method, kind("a secret"))
    assert type(found) is ServiceError
    assert found.message == f"Outer.{method} failed; see the server's log, request id r1"
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    callee = {"awaits": "Inner.fail", "waits": "Inner.fail_in_thread", "joins": "Inner.fail_together"}
    assert f"Outer.{method} called {callee.get(method, 'model sums')} " in record.getMessage()
    assert record.getMessage().endswith("refuses: a secret (request r1)")


@pytest.mark.parametrize("method", ["awaits", "waits", "joins", "infers"])
@pytest.mark.parametrize("kind", PASS)
def test_no_room_no_time_and_failures_pass_with_their_code(outcome, caplog, method, kind):
    found = outcome(method, kind("sorry", retry_after_s=3))
    assert (type(found), found.message, found.retry_after_s) == (kind, "sorry", 3)
    assert not caplog.records


def test_debug_tells(outcome):
    found = outcome("awaits", InvalidInput("$.x"), debug=True)
    assert found.message == "Outer.awaits called Inner.fail with an argument that it refuses: $.x"


def test_a_wrong_use_of_a_model_is_the_services_failure(outcome, caplog):
    assert type(outcome("too_many", InvalidInput("no"))) is ServiceError
    assert "Outer.too_many called model sums with an argument that it refuses" in caplog.text


def test_what_the_method_handles_or_raises_itself_is_its_own_word(outcome):
    assert outcome("handles", QueueFull("full")).body == b'"QueueFull"'
    assert type(outcome("translates", NotFound("no"))) is InvalidInput
    assert type(outcome("own", NotFound("no"))) is NotFound


def test_a_chain_names_every_call(serve, caplog):
    @trilith.service
    class Top:
        outer = trilith.depends(Outer)

        @trilith.api
        async def run(self) -> str:
            return await self.outer.awaits()

    async def scenario(hosted):
        with pytest.raises(ServiceError, match=r"Top\.run failed"):
            await hosted.call("run")

    Inner.error = InvalidInput("no")
    serve(Top, scenario)
    assert "Top.run called Outer.awaits, which called Inner.fail with an argument that it refuses: no" in caplog.text


def test_called_by_hand_the_error_is_what_it_is():
    Inner.error = InvalidInput("no")
    with pytest.raises(InvalidInput, match=r"^no$"):
        asyncio.run(Outer().awaits())
    assert spec_of(Inner).methods["fail"].where == "Inner.fail"

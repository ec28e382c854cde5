"""Whose fault it was: what the items raise that a method gives to a call is its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import trilith
from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import InvalidInput, NotFound, ServiceError, TrilithError
from trilith.service import InProcessResolver, ServiceCall, ServiceHost
from trilith.wire.calls import CallMeta


@trilith.service
class Taker:
    @trilith.api
    async def total(self, numbers: AsyncIterator[int]) -> int:
        return sum([number async for number in numbers])

    @trilith.api
    async def doubled(self, numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        async for number in numbers:
            yield 2 * number

    @trilith.api
    async def refuses(self, numbers: AsyncIterator[int]) -> int:
        raise InvalidInput("not these")


async def breaks(error: TrilithError) -> AsyncIterator[int]:
    yield 1
    raise error


def breaks_in_thread(error: TrilithError) -> Iterator[int]:
    yield 1
    raise error


@trilith.service
class Giver:
    taker = trilith.depends(Taker)

    @trilith.api
    async def gives(self) -> int:
        return await self.taker.total(breaks(NotFound("mine")))

    @trilith.api
    async def gives_both_ways(self) -> int:
        return sum([number async for number in self.taker.doubled(breaks(NotFound("mine")))])

    @trilith.api
    def gives_in_thread(self) -> int:
        return self.taker.total(breaks_in_thread(NotFound("mine")))

    @trilith.api
    async def is_refused(self) -> int:
        return await self.taker.refuses(breaks(NotFound("mine")))


@trilith.service
class Above:
    giver = trilith.depends(Giver)

    @trilith.api
    async def asks(self) -> int:
        return await self.giver.gives()


def outcome(service, method):
    async def main():
        host = ServiceHost(service, InProcessResolver(home=asyncio.get_running_loop()))
        await host.start()
        try:
            answered = asyncio.get_running_loop().create_future()
            meta = CallMeta(host.spec.name, method, "application/json", "r")
            context = Context(request_id="r", timeline=Timeline("service", 2))
            host.handle(ServiceCall(meta, [b"{}"], context, lambda found, _: answered.set_result(found)))
            return await asyncio.wait_for(answered, 20)
        finally:
            await host.stop()

    return asyncio.run(main())


@pytest.mark.parametrize("method", ["gives", "gives_both_ways", "gives_in_thread"])
def test_an_error_of_the_items_is_the_giver_s_own(method, caplog):
    error = outcome(Giver, method)
    assert (type(error), error.message) == (NotFound, "mine")
    assert "refuses" not in caplog.text


def test_what_the_callee_refuses_is_still_the_giver_s_fault(caplog):
    assert type(outcome(Giver, "is_refused")) is ServiceError
    assert "Giver.is_refused called Taker.refuses with an argument that it refuses: not these" in caplog.text


def test_to_who_called_the_giver_it_is_a_refusal_as_any_other(caplog):
    assert type(outcome(Above, "asks")) is ServiceError
    assert "Above.asks called Giver.gives in a way that it refuses: mine" in caplog.text

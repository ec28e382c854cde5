"""A worker's calls when its gateway ends."""

import asyncio
import time

import pytest

from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import Draining, ReplicaLost
from trilith.orchestration.engine import remote
from trilith.orchestration.engine.hello import LEAVING
from trilith.orchestration.engine.remote import GatewayLink
from trilith.testing.transport import linked_peers
from trilith.wire.calls import CallMeta

META = CallMeta("S", "m", "application/json", "r")


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the loop's own work makes it true
            await asyncio.sleep(0)


def asked(link):
    context = Context(request_id="r", timeline=Timeline("t", 3), deadline=time.monotonic() + 60)
    return asyncio.ensure_future(link.send(META, [], context))


def test_what_was_asked_of_a_gateway_that_ends_gets_an_error_and_new_calls_wait_for_the_next():
    async def main():
        link, held = GatewayLink(), []

        async def gateway():
            mine, other = await linked_peers(
                prepare=lambda peer: setattr(peer, "on_lost", lambda _: link.lose()),
                prepare_other=lambda peer: setattr(peer, "on_call", held.append),
            )
            link.use(mine)
            return mine, other

        mine, other = await gateway()
        calls = [asked(link), asked(link)]
        await until(lambda: len(held) == 2)
        other.abort()
        for call in calls:
            with pytest.raises(ReplicaLost, match="the gateway ended while it had the call"):
                await asyncio.wait_for(call, 10)
        late = asked(link)
        mine, other = await gateway()
        await until(lambda: len(held) == 3)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        assert not link._asked
        mine.abort()
        other.abort()

    asyncio.run(main())


def test_what_was_asked_of_a_gateway_that_leaves_ends_with_the_process(monkeypatch):
    """The server stops: a service's own tasks have nothing to report, and are cancelled like all."""
    monkeypatch.setattr(remote, "_STOP_WITHIN_S", 3600.0)

    async def main():
        link, held = GatewayLink(), []
        mine, other = await linked_peers(
            prepare=lambda peer: (
                setattr(peer, "on_lost", lambda _: link.lose()),
                setattr(peer, "on_notice", lambda notice: notice == LEAVING and link.gateway_leaves()),
            ),
            prepare_other=lambda peer: setattr(peer, "on_call", held.append),
        )
        link.use(mine)
        call = asked(link)
        await until(lambda: held)
        other.notify(LEAVING)
        other.flush()
        other.abort()
        await until(lambda: mine.closed)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not call.done()
        monkeypatch.setattr(remote, "_STOP_WITHIN_S", 0.0)
        link.lose()  # something hangs, and it is not next after all
        with pytest.raises(Draining, match="the server is stopping"):
            await asyncio.wait_for(call, 10)

    asyncio.run(main())

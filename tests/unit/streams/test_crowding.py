"""Streams of one client give way to calls of another, and to nobody else."""

import asyncio
import time

import pytest

from trilith.core.context import Context
from trilith.core.timeline import DECODED, STARTED, Timeline
from trilith.errors import QueueFull
from trilith.service import ServiceCall, StreamServiceCall
from trilith.service.crowding import Crowding
from trilith.testing.streams import MemoryStream
from trilith.wire.calls import CallMeta

OLD_S = 9.0


def context(age_s, *stamps):
    began = time.monotonic() - age_s
    return Context(request_id="r", timeline=Timeline("service", 2, [(stamp, began) for stamp in stamps]))


def meta(client):
    return CallMeta("S", "m", "", "r", client=f"{client}:1")


def stream(client, ended, *, stamps=(STARTED, DECODED), rests=True, age_s=OLD_S, progress=0):
    call = StreamServiceCall(
        meta(client), (), context(age_s, *stamps), lambda outcome, _: ended.append((call, outcome)), port=MemoryStream()
    )
    call.progress = progress
    if rests:
        call.rests()
    else:
        call.waits()
    return call


def test_the_gateway_says_that_others_wait():
    ended = []
    calls = [stream("a", ended, progress=number) for number in (3, 1, 2)]
    calls += [
        stream("a", ended, rests=False),
        stream("a", ended, age_s=1.0),
        ServiceCall(meta("a"), (), context(OLD_S)),
    ]
    crowding = Crowding(calls, lambda call: False)
    crowding.others_wait(["a"])
    assert ended == []
    crowding.others_wait(["b", "b", "b", "b"])  # of 5 streams a share is 2: who waits gets so many
    assert [call for call, _ in ended] == [calls[1], calls[2]]
    assert isinstance(ended[0][1], QueueFull)
    assert "S.m was ended so that others get a place" in ended[0][1].message


@pytest.mark.parametrize("waits_s", [0.5, 9.0])
def test_a_call_that_waits_for_a_thread(waits_s):
    async def main():
        ended = []
        calls = [stream("a", ended) for _ in range(2)]
        calls.append(stream("a", ended, stamps=(STARTED,)))  # waits for a thread itself
        calls.append(stream("c", ended))  # on the loop: it holds none
        calls.append(ServiceCall(meta("b"), (), context(waits_s, STARTED)))
        crowding = Crowding(calls, lambda call: call is not calls[3])
        crowding._look()
        crowding.close()
        assert [call for call, _ in ended] == ([calls[0]] if waits_s > 2 else [])

    asyncio.run(main())


def test_nothing_is_looked_at_without_streams():
    async def main():
        crowding = Crowding([ServiceCall(meta("b"), (), context(9.0, STARTED))], lambda call: True)
        crowding.watch()
        crowding._look()
        assert crowding._timer is None

    asyncio.run(main())

"""An application whose lifespan ends before it is asked to: it is logged, and its replica is not well."""

from __future__ import annotations

import asyncio
import logging

import pytest

import trilith
from trilith.orchestration.engine.replica_health import ReplicaHealth


class Breaks:
    """When the lifespans of a test break."""

    now: asyncio.Event


async def breaking(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await Breaks.now.wait()
        raise ValueError("its pool is gone")


async def returning(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})


class Layer:
    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        await breaking(scope, receive, send)


@trilith.service(health_interval_s=0.001, health_failures=3)
class Mounting:
    works = trilith.mount("/works", returning)
    ui = trilith.mount("/ui", breaking)


@trilith.service(middleware=[Layer])
class Layered:
    @trilith.api
    async def one(self) -> int:
        return 1


async def broken(host):
    assert host.why_not() == ""
    Breaks.now.set()
    for _ in range(1000):
        if host.why_not():
            break
        await asyncio.sleep(0.001)
    return host.why_not()


@pytest.mark.parametrize(
    ("service", "where"), [(Mounting, "Mounting: the mount at /ui"), (Layered, "Layered: its middleware")]
)
def test_it_is_logged_at_once_and_said(mounted, caplog, service, where):
    async def scenario(hosted):
        return await broken(hosted.host)

    Breaks.now = asyncio.Event()
    with caplog.at_level(logging.ERROR, "trilith.service"):
        why = mounted(service, scenario)
    assert why.startswith(where)
    assert why.endswith("(lifespan) ended with ValueError: its pool is gone")
    [record] = caplog.records
    assert record.getMessage() == f"{where} does not work any more: its lifespan raised"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "its pool is gone"


def test_its_replica_takes_no_calls_and_is_given_up(mounted):
    told, dead = [], []

    async def scenario(hosted):
        host = hosted.host
        health = ReplicaHealth(host.spec, host.instance, on_ready=told.append, on_dead=dead.append, parts=host.why_not)
        assert health.has_a_say
        watch = asyncio.create_task(health.watch())
        await broken(host)
        await asyncio.wait_for(watch, 20)

    Breaks.now = asyncio.Event()
    mounted(Mounting, scenario)
    assert told == ["Mounting: the mount at /ui: what it keeps open (lifespan) ended with ValueError: its pool is gone"]
    assert dead == [f"{told[0]}, 3 times in a row"]

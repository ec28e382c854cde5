"""What a replica makes of what its process says, look by look."""

import asyncio
from typing import NamedTuple

import trilith
from trilith.orchestration.engine.replica_health import ReplicaHealth
from trilith.service import spec_of


class Look(NamedTuple):
    why_not: str
    silence: str = ""


class Process:
    """Says one after the other, and then nothing any more."""

    def __init__(self, looks):
        self._looks = list(looks)
        self.over = asyncio.Event()

    async def look(self, timeout_s):
        if not self._looks:
            self.over.set()
            await asyncio.Event().wait()
        return self._looks.pop(0)


def heard(*looks, hooks=None):
    """What is told of an instance whose process says that."""
    told = []
    target = trilith.service(cmd=["x"], health_interval_s=1e-6, health_failures=2)(type("Echo", (), hooks or {}))

    async def scenario():
        process = Process(looks)
        health = ReplicaHealth(
            spec_of(target),
            target(),
            on_ready=lambda why: told.append(("ready", why)),
            on_dead=lambda why: told.append(("dead", why)),
            command=process,
        )
        assert health.has_a_say
        watch = asyncio.ensure_future(health.watch())
        await asyncio.wait({watch, asyncio.ensure_future(process.over.wait())}, return_when=asyncio.FIRST_COMPLETED)
        watch.cancel()

    asyncio.run(scenario())
    return told


def test_each_change_is_told_once():
    sick = Look("GET /health has the status 503")
    assert heard(Look(""), sick, sick, sick, Look(""), Look("")) == [
        ("ready", "its command: GET /health has the status 503"),
        ("ready", ""),
    ]


def test_silence_in_a_row_is_the_end():
    silent = Look("it does not answer within 5 s", "it does not answer within 5 s")
    assert heard(silent, Look(""), silent, silent, Look("")) == [
        ("ready", "its command: it does not answer within 5 s"),
        ("ready", ""),
        ("ready", "its command: it does not answer within 5 s"),
        ("dead", "its command: it does not answer within 5 s, 2 times in a row"),
    ]


def test_silence_with_requests_in_hand_is_the_end_too():
    silent = Look("", "it does not answer within 5 s")
    assert heard(silent, Look(""), silent, silent, Look("")) == [
        ("dead", "its command: it does not answer within 5 s, 2 times in a row")
    ]


def test_the_instance_has_a_say_beside_it():
    assert heard(Look(""), Look(""), hooks={"__is_ready__": lambda self: False}) == [
        ("ready", "__is_ready__ returned False")
    ]

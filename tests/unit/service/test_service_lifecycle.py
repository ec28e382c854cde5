"""Entered before the first call, left after the last; bounded, and never a reason not to end."""

import asyncio
import logging
import threading

import pytest

import trilith
from trilith.errors import InvalidConfig, SetupError
from trilith.service import InProcessResolver, ServiceHost


def recorded(**members):
    """A service class with these members and one method; what happens to it is in `events`."""
    events = []

    @trilith.api
    async def call(self) -> int:
        return 1

    made = type("Recorded", (), {"events": events, "call": call, "__module__": __name__, **members})
    return trilith.service(made), events


async def life(service, timeout_s=5.0):
    host = ServiceHost(service, InProcessResolver())
    await host.start()
    began = list(service.events)
    await host.stop(timeout_s)
    await host.stop(timeout_s)  # once
    return began


def test_an_asynchronous_one_is_entered_on_the_loop():
    async def enter(self):
        self.events.append(("enter", asyncio.get_running_loop() is not None))

    async def leave(self, *error):
        self.events.append(("leave", error))

    service, events = recorded(__aenter__=enter, __aexit__=leave)
    assert asyncio.run(life(service)) == [("enter", True)]
    assert events == [("enter", True), ("leave", (None, None, None))]


def test_a_plain_one_is_entered_in_a_thread():
    def enter(self):
        self.events.append(threading.current_thread() is threading.main_thread())

    service, events = recorded(__enter__=enter, __exit__=lambda self, *_: enter(self))
    asyncio.run(life(service))
    assert events == [False, False]


def test_one_that_says_nothing_is_left_alone():
    service, events = recorded()
    asyncio.run(life(service))
    assert events == []


@pytest.mark.parametrize("half", ["__aenter__", "__aexit__", "__enter__", "__exit__"])
def test_half_a_context_manager_is_refused(half):
    with pytest.raises(InvalidConfig, match="write both"):
        recorded(**{half: lambda self, *_: None})


def test_an_error_of_entering_ends_the_start_and_nothing_is_left():
    async def enter(self):
        raise OSError("no database")

    async def leave(self, *error):
        self.events.append("leave")

    service, events = recorded(__aenter__=enter, __aexit__=leave)

    async def start():
        host = ServiceHost(service, InProcessResolver())
        with pytest.raises(SetupError, match="__aenter__ raised OSError: no database"):
            await host.start()
        await host.stop()

    asyncio.run(start())
    assert events == []


def test_an_error_of_leaving_is_logged(caplog):
    async def enter(self):
        pass

    async def leave(self, *error):
        raise OSError("already gone")

    service, _ = recorded(__aenter__=enter, __aexit__=leave)
    with caplog.at_level(logging.ERROR):
        asyncio.run(life(service))
    assert "raised OSError: already gone" in caplog.text


def test_leaving_is_bounded_in_time(caplog):
    async def enter(self):
        pass

    async def leave(self, *error):
        await asyncio.sleep(3600)

    service, _ = recorded(__aenter__=enter, __aexit__=leave)
    with caplog.at_level(logging.ERROR):
        asyncio.run(life(service, timeout_s=0.01))
    assert "was not left within 0.01 s" in caplog.text

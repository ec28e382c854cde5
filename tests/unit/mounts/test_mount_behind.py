"""What applications do after their answers: counted, bounded, ended."""

from __future__ import annotations

import asyncio
import re

import pytest

import trilith
from trilith.errors import Cancelled


class After:
    running = 0
    let_go: asyncio.Event


async def goes_on(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})
    After.running += 1
    try:
        await After.let_go.wait()
    finally:
        After.running -= 1


@trilith.service(concurrency=3)
class Busy:
    ui = trilith.mount("/ui", goes_on)
    other = trilith.mount("/other", goes_on)


def test_what_goes_on_after_answers_is_bounded(mounted, caplog):
    async def scenario(hosted):
        After.let_go = asyncio.Event()
        for _ in range(3):
            assert (await hosted.ask().whole())[2] == b"ok"
        waits = [hosted.ask() for _ in range(2)]
        await asyncio.sleep(0.02)
        assert (After.running, [request.end.done() for request in waits]) == (3, [False, False])
        assert (await hosted.ask("/other", "/other").whole())[2] == b"ok"  # that of another mount is its own
        waits[0].call.cancel()
        with pytest.raises(Cancelled):
            await waits[0].end
        After.let_go.set()
        assert (await waits[1].whole())[2] == b"ok"
        await hosted.idle()

    mounted(Busy, scenario)
    assert "Busy: the mount at /ui: its work on 3 requests goes on after their answers" in caplog.text
    assert After.running == 0


def test_all_applications_end_within_the_time_of_the_replica(mounted, caplog):
    ended = []

    async def never_ends(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(1)

    @trilith.service
    class Many:
        first = trilith.mount("/1", never_ends)
        second = trilith.mount("/2", never_ends)
        third = trilith.mount("/3", never_ends)
        fourth = trilith.mount("/4", never_ends)

    async def scenario(hosted):
        await hosted.host.stop(0.4)

    mounted(Many, scenario)
    told = [float(number) for number in re.findall(r"did not end within ([0-9.]+) s", caplog.text)]
    assert len(told) == len(ended) == 4
    assert sum(told) < 0.45

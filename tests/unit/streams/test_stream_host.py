"""Streaming methods in a host: items out and in, flow control, failures midway, cancellation, time limits."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator

import pytest

import trilith
from trilith.errors import Cancelled, DeadlineExceeded, InvalidInput, NotAcceptable, ServiceError
from trilith.net.transport import Window
from trilith.wire.calls import NATIVE_CONTENT_TYPE

LINES = "application/jsonl"


@trilith.service(threads=2)
class Streams:
    def __init__(self) -> None:
        self.events: list[str] = []
        self.threads: set[int] = set()
        self.blocked = threading.Event()
        self.gate = threading.Semaphore(0)

    @trilith.api
    async def count(self, n: int) -> AsyncIterator[int]:
        try:
            for number in range(n):
                self.events.append(f"made {number}")
                yield number
        finally:
            self.events.append("closed")

    @trilith.api
    def plain(self, n: int) -> Iterator[int]:
        try:
            for number in range(n):
                self.threads.add(threading.get_ident())
                self.events.append(f"made {number}")
                yield number
        finally:
            self.threads.add(threading.get_ident())
            self.events.append("closed")

    @trilith.api
    async def words(self) -> AsyncIterator[str]:
        yield "two\nlines"
        yield "é"

    @trilith.api
    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"\x00\x01"
        yield b""

    @trilith.api
    async def fails(self, after: int) -> AsyncIterator[int]:
        for number in range(after):
            yield number
        raise InvalidInput("no more")

    @trilith.api
    def fails_plainly(self, after: int) -> Iterator[int]:
        yield from range(after)
        raise ValueError("secret")

    @trilith.api
    async def wrong(self) -> AsyncIterator[int]:
        yield 1
        yield "two"  # type: ignore[misc]

    @trilith.api(timeout_s=0.05)
    async def hangs(self, after: int) -> AsyncIterator[int]:
        for number in range(after):
            yield number
        try:
            await asyncio.sleep(100)
        finally:
            self.events.append("closed")

    @trilith.api(timeout_s=0.05)
    def blocks(self) -> Iterator[int]:
        yield 1
        self.blocked.wait(20)
        self.events.append("let go")
        yield 2

    @trilith.api
    async def stubborn(self) -> AsyncIterator[int]:
        yield 0
        for number in range(1, 5):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                self.events.append("ignored")
            yield number

    @trilith.api
    async def total(self, numbers: AsyncIterator[int], start: int = 0) -> int:
        async for number in numbers:
            start += number
        return start

    @trilith.api
    def plain_total(self, numbers: Iterator[int]) -> int:
        return sum(numbers)

    @trilith.api
    async def doubled(self, numbers: AsyncIterator[int]) -> AsyncIterator[int]:
        async for number in numbers:
            yield 2 * number

    @trilith.api
    def plainly_doubled(self, numbers: Iterator[int]) -> Iterable[int]:
        return (2 * number for number in numbers)

    @trilith.api
    async def sizes(self, parts: AsyncIterator[bytes], /) -> AsyncIterator[int]:
        async for part in parts:
            yield len(part)

    @trilith.api
    async def sips(self, numbers: AsyncIterator[int]) -> int:
        async for number in numbers:
            self.events.append(str(number))
            await asyncio.to_thread(self.gate.acquire)
        return len(self.events)

    @trilith.api
    def plain_sips(self, numbers: Iterator[int]) -> int:
        for number in numbers:
            self.events.append(str(number))
            self.gate.acquire()
        return len(self.events)

    @trilith.api(timeout_s=0.05)
    async def patient(self, numbers: AsyncIterator[int]) -> int:
        return len([number async for number in numbers])


def body(**arguments: object) -> bytes:
    return json.dumps(arguments).encode()


@pytest.mark.parametrize("method", ["count", "plain"])
def test_items_come_one_by_one_and_end_with_the_answer(stream, method):
    async def scenario(hosted):
        call = hosted.start(method, body(n=5))
        assert await call.rest() == [b"0", b"1", b"2", b"3", b"4"]
        assert (await call.answer)[1] == []
        await hosted.idle()
        instance = hosted.host.instance
        assert instance.events[-1] == "closed"
        assert method == "count" or len(instance.threads) == 1

    stream(Streams, scenario)


@pytest.mark.parametrize(("method", "ahead"), [("count", 0), ("plain", 17)])
def test_a_slow_reader_holds_the_generator(stream, method, ahead):
    async def scenario(hosted):
        call = hosted.start(method, body(n=1000), window=Window(items=4))
        await call.items(2)
        for _ in range(20):
            await asyncio.sleep(0.002)
        instance = hosted.host.instance
        assert len(instance.events) <= 2 + 4 + 1 + ahead
        assert len(await call.rest()) == 998
        await call.answer

    stream(Streams, scenario)


@pytest.mark.parametrize("method", ["count", "plain"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_caller_that_goes_closes_the_generator(stream, method, after):
    async def scenario(hosted):
        call = hosted.start(method, body(n=10**9), window=Window(items=2))
        await call.items(after)
        call.call.cancel()
        with pytest.raises(Cancelled):
            await call.answer
        await hosted.idle()
        instance = hosted.host.instance
        assert not instance.events or instance.events[-1] == "closed"
        assert len(instance.threads) <= 1

    stream(Streams, scenario)


def test_text_bytes_and_native_items(stream):
    async def scenario(hosted):
        assert await hosted.start("words", accept="text/plain").rest() == [b"two\nlines", "é".encode()]
        assert await hosted.start("words").rest() == [rb'"two\nlines"', '"é"'.encode()]
        assert await hosted.start("chunks").rest() == [b"\x00\x01", b""]
        assert await hosted.start("chunks", accept=LINES).rest() == [b'"AAE="', b'""']
        native = await hosted.start("count", b"\x92\x90\x81\xa1n\x02", NATIVE_CONTENT_TYPE).rest()
        assert native == [b"\x00", b"\x01"]
        with pytest.raises(NotAcceptable, match="text/event-stream"):
            await hosted.start("count", body(n=1), accept="image/png").answer

    stream(Streams, scenario)


def test_a_failure_midway_comes_after_the_items(stream, caplog):
    async def scenario(hosted):
        for method, error in (("fails", InvalidInput), ("fails_plainly", ServiceError)):
            call = hosted.start(method, body(after=3))
            assert await call.rest() == [b"0", b"1", b"2"]
            with pytest.raises(error):
                await call.answer
        call = hosted.start("wrong")
        assert await call.rest() == [b"1"]
        with pytest.raises(ServiceError):
            await call.answer

    stream(Streams, scenario)
    assert "declares int" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("after", [0, 2])
def test_the_time_limit_is_one_between_items(stream, after):
    async def scenario(hosted):
        call = hosted.start("hangs", body(after=after))
        assert len(await call.items(after)) == after
        with pytest.raises(DeadlineExceeded, match=r"gave no item for 0\.05 s.*between two items"):
            await call.answer
        await hosted.idle()
        assert hosted.host.instance.events == ["closed"]

    stream(Streams, scenario)


def test_a_reader_that_rests_uses_up_nobodys_time(stream):
    async def scenario(hosted):
        call = hosted.start("hangs", body(after=100), window=Window(items=1))
        await call.items(1)
        await asyncio.sleep(0.15)
        assert not call.answer.done()
        await call.items(99)
        with pytest.raises(DeadlineExceeded):
            await call.answer

    stream(Streams, scenario)


def test_the_callers_own_limit_is_one_of_the_whole(stream):
    async def scenario(hosted):
        call = hosted.start("count", body(n=10**9), deadline=time.monotonic() + 0.05)
        await call.rest()
        with pytest.raises(DeadlineExceeded, match="trilith-timeout-ms"):
            await call.answer

    stream(Streams, scenario)


def test_a_thread_that_cannot_be_stopped_keeps_its_slot(stream):
    async def scenario(hosted):
        call = hosted.start("blocks")
        await call.items(1)
        with pytest.raises(DeadlineExceeded):
            await call.answer
        assert hosted.host.in_flight == 1
        hosted.host.instance.blocked.set()
        await hosted.idle()
        assert hosted.host.instance.events == ["let go"]

    stream(Streams, scenario)


def test_a_generator_that_ignores_cancellation_is_closed_at_its_next_item(stream):
    async def scenario(hosted):
        call = hosted.start("stubborn")
        await call.items(1)
        call.call.cancel()
        await hosted.idle()
        assert hosted.host.instance.events == ["ignored"]
        assert call.port.sent == []
        with pytest.raises(Cancelled):
            await call.answer

    stream(Streams, scenario)


@pytest.mark.parametrize("method", ["total", "plain_total"])
@pytest.mark.parametrize("cut", [1, 2, 5])
def test_items_go_in_as_lines_cut_anywhere(stream, method, cut):
    text = b"1\n22\r\n\n333"

    async def scenario(hosted):
        call = hosted.start(method, content_type=LINES)
        call.port.give(*(text[at : at + cut] for at in range(0, len(text), cut)))
        call.port.end()
        assert (await call.answer)[1] == [b"356"]
        assert call.port.taken_back == -(-len(text) // cut)

    stream(Streams, scenario)


def test_other_arguments_come_in_the_query(stream):
    async def scenario(hosted):
        call = hosted.start("total", content_type=LINES, query="start=100")
        call.port.give(b"1\n")
        call.port.end()
        assert (await call.answer)[1] == [b"101"]
        with pytest.raises(InvalidInput, match="unknown `stop`"):
            await hosted.start("total", content_type=LINES, query="stop=1").answer

    stream(Streams, scenario)


@pytest.mark.parametrize("method", ["doubled", "plainly_doubled"])
def test_both_ways_at_once(stream, method):
    async def scenario(hosted):
        call = hosted.start(method, content_type="application/json", window=Window(items=2))
        for number in range(5):
            call.port.give(str(number).encode())
            assert await call.items(1) == [str(2 * number).encode()]
        call.port.end()
        await call.answer

    stream(Streams, scenario)


def test_raw_items_and_items_with_a_type_of_their_own(stream):
    async def scenario(hosted):
        call = hosted.start("sizes", content_type="application/octet-stream")
        call.port.give(b"abc", b"")
        call.port.give(b'"AAE="', meta=b"application/json")
        call.port.end()
        assert await call.rest() == [b"3", b"0", b"2"]
        await call.answer

    stream(Streams, scenario)


@pytest.mark.parametrize("method", ["total", "plain_total"])
def test_a_bad_item_fails_where_it_is_read(stream, method):
    async def scenario(hosted):
        call = hosted.start(method, content_type=LINES)
        call.port.give(b'1\n"two"\n')
        with pytest.raises(InvalidInput, match=r"item 2: .*int"):
            await call.answer
        await hosted.idle()

    stream(Streams, scenario)


@pytest.mark.parametrize("method", ["total", "plain_total"])
def test_a_caller_that_goes_ends_the_wait_for_its_items(stream, method):
    async def scenario(hosted):
        call = hosted.start(method, content_type=LINES)
        await call.asked()
        call.call.cancel()
        with pytest.raises(Cancelled):
            await call.answer
        await hosted.idle()

    stream(Streams, scenario)


def test_a_caller_that_sends_nothing_is_told_so(stream):
    async def scenario(hosted):
        call = hosted.start("patient", content_type=LINES)
        with pytest.raises(DeadlineExceeded, match=r"its caller sent it no item for 0\.05 s"):
            await call.answer

    stream(Streams, scenario)


@pytest.mark.parametrize("method", ["sips", "plain_sips"])
def test_a_method_that_goes_on_taking_items_has_time(stream, method):
    async def scenario(hosted):
        call, instance = hosted.start(method, content_type=LINES), hosted.host.instance
        call.port.give(b"1\n2\n3\n")
        call.port.end()
        since = [0.0]
        for taken in (1, 2, 3):
            while len(instance.events) < taken:  # noqa: ASYNC110 - a thread changes it
                await asyncio.sleep(0.001)
            since.append(call.call.waits_since)
            instance.gate.release()
        assert since == sorted(set(since)), "each item gives it new time"
        assert (await call.answer)[1] == [b"3"]

    stream(Streams, scenario)


def test_the_timeline_has_the_first_and_the_last_item(stream):
    async def scenario(hosted):
        call = hosted.start("count", body(n=3), trace=True)
        await call.rest()
        meta, _ = await call.answer
        stages = [stage for stage, _ in meta.timeline[2]]
        assert stages.index("started") < stages.index("first_item") < stages.index("last_item")

    stream(Streams, scenario)

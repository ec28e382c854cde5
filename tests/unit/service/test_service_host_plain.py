"""The host's short way for plain JSON answers as the general way does, which a traced call takes."""

import asyncio
import gc

import pytest

import trilith
from trilith.core.timeline import DECODED, RECEIVED, STARTED
from trilith.errors import QueueFull, TrilithError
from trilith.service import PLAIN_RESULT


@trilith.service
class Plain:
    def __init__(self) -> None:
        self.stamps: list[str] = []

    @trilith.api
    async def add(self, x: list[float], y: int = 1) -> list[float]:
        return [value + y for value in x]

    @trilith.api
    async def whole(self, x: int, /) -> int:
        return x

    @trilith.api
    async def named(self, *, x: int, y: str = "a") -> str:
        return y * x

    @trilith.api
    async def wrong(self, x: int) -> str:
        return object()  # type: ignore[return-value]

    @trilith.api
    async def raises(self, what: str) -> None:
        raise {"value": ValueError("secret"), "full": QueueFull("full"), "cancel": asyncio.CancelledError()}[what]

    @trilith.api(timeout_s=0.01)
    async def slow(self, x: int) -> int:
        await asyncio.get_running_loop().create_future()
        return x

    @trilith.api
    async def seen(self, x: int) -> list[str]:
        return [stage for stage, _ in trilith.context().timeline.stamps]


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("add", b'{"x": [1, 2.5]}'),
        ("add", b'{"x": [1], "y": 3}'),
        ("add", b'{"x": [1], "z": 3}'),
        ("add", b'{"x": ["1"]}'),
        ("add", b'{"x": [1]'),
        ("add", b"\xff"),
        ("add", b""),
        ("whole", b"5"),
        ("whole", b'"5"'),
        ("named", b'{"x": 2}'),
        ("named", b'{"x": 2, "y": "b"}'),
        ("wrong", b'{"x": 2}'),
        ("raises", b'{"what": "value"}'),
        ("raises", b'{"what": "full"}'),
        ("raises", b'{"what": "cancel"}'),
        ("slow", b'{"x": 1}'),
        ("seen", b'{"x": 1}'),
    ],
)
def test_both_ways_answer_alike(serve, method, body):
    def run(**how):
        async def scenario(hosted):
            try:
                answer = await hosted.call(method, body, **how)
            except TrilithError as error:
                shown = (type(error), error.message)
            else:
                shown = (answer.meta.content_type, answer.body)
            await hosted.idle()
            return shown

        return serve(Plain, scenario)

    assert run() == run(trace=True) == run(content_type="application/json; charset=utf-8")


def test_the_short_way_is_taken(call_once):
    assert call_once(Plain, "add", b'{"x": [1]}').meta is PLAIN_RESULT


def test_a_method_sees_the_stamps_so_far(call_once):
    assert call_once(Plain, "seen", b'{"x": 1}').body == f'["{STARTED}","{DECODED}"]'.encode()
    assert RECEIVED not in call_once(Plain, "seen", b'{"x": 1}').body.decode()  # whoever takes the call stamps it


@pytest.mark.parametrize("trace", [False, True])
def test_calls_leave_nothing_for_the_cyclic_collector(serve, trace):
    async def scenario(hosted):
        await hosted.call("add", b'{"x": [1]}', trace=trace)
        gc.collect()
        for _ in range(20):
            await hosted.call("add", b'{"x": [1]}', trace=trace)
        return gc.collect()

    gc.disable()
    try:
        assert serve(Plain, scenario) < 20  # not one circle a call; the loop may have made a few of its own
    finally:
        gc.enable()

"""What is used in the wrong place or the wrong way says what the right one is."""

import asyncio
import collections.abc

import numpy as np
import pytest

import trilith
from trilith.core.model import ModelSignature
from trilith.errors import InvalidConfig
from trilith.service import InProcessResolver, ModelProxy, ServiceHost


class Model:
    async def signature(self):
        return ModelSignature(inputs=(), outputs=(object(),), metadata={}, max_batch_size=0)

    async def infer(self, inputs):
        return {"y": np.ones(1)}


@trilith.service
class Other:
    @trilith.api
    async def f(self) -> int:
        return 1

    @trilith.api
    async def never(self) -> None:
        await asyncio.Event().wait()


@trilith.service
class Plain:
    other = trilith.depends(Other)

    def __init__(self) -> None:
        self.model = ModelProxy("m", Model(), None)

    @trilith.api
    def item(self) -> float:
        return self.model().item()

    @trilith.api
    def first(self) -> float:
        return self.model()[0]

    @trilith.api
    def several(self) -> float:
        y, _ = self.model()
        return float(np.asarray(y))

    @trilith.api
    def array(self) -> float:
        return float(np.asarray(self.model())[0])

    @trilith.api
    def other_twice(self) -> int:
        return len(self.other.f())


@pytest.mark.parametrize("method", ["item", "first", "several", "array", "other_twice"])
def test_a_plain_method_called_on_a_loop_says_that_its_own_calls_are_awaitables(method):
    async def run():
        getattr(Plain(), method)()

    called = "Other.f" if method == "other_twice" else "model m"
    with pytest.raises((AttributeError, TypeError), match=f"the call of {called} was made on an event loop"):
        asyncio.run(run())


def test_in_a_thread_it_gets_the_results():
    async def run():
        return await asyncio.to_thread(Plain().item)

    assert asyncio.run(run()) == 1.0
    assert Plain().item() == 1.0


def test_what_a_call_gives_is_good_for_all_that_takes_a_coroutine():
    async def run():
        service = Plain()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(service.other.f())
        waited = await asyncio.wait_for(service.other.f(), 5)
        gathered = await asyncio.gather(*(service.other.f() for _ in range(3)))
        call = service.other.f()
        assert isinstance(call, collections.abc.Awaitable)
        assert asyncio.iscoroutine(call)
        call.close()
        return [task.result(), waited, *gathered]

    assert asyncio.run(run()) == [1] * 5


def test_a_task_of_a_call_can_be_cancelled():
    async def run():
        service = Plain()
        task = asyncio.create_task(service.other.never())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize("made", [lambda: trilith.depends(Other), lambda: trilith.model("m")])
def test_at_module_level_it_says_where_it_belongs(made):
    with pytest.raises(AttributeError, match=r"asked for\).*stand in the body of a service class"):
        made().f()
    with pytest.raises(TypeError, match=r"called\).*A service that is a function has none"):
        made()(1)


@pytest.mark.parametrize("made", [lambda: trilith.depends(Other), lambda: trilith.model("m")])
def test_in_a_constructor_it_is_refused_at_the_start(made):
    @trilith.service
    class Late:
        def __init__(self) -> None:
            self.other = made()

        @trilith.api
        async def f(self) -> int:
            return 1

    with pytest.raises(InvalidConfig, match=r"in the constructor of Late \(self\.other = \.\.\.\)"):
        asyncio.run(ServiceHost(Late, InProcessResolver()).start())
    with pytest.raises(AttributeError, match="stand in the body of a service class"):
        Late().other.f()

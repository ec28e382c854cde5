"""What an instance says of its health; and what is done before a deployment."""

import asyncio
import threading
import time

import pytest

import trilith
from trilith.errors import InvalidConfig, QueueFull, SetupError
from trilith.service import IS_ALIVE, IS_READY, deploy_hooks, has_hook, run_deploy_hook, service_graph, spec_of, why_not


def of(answer):
    class Plain:
        def __is_ready__(self):
            return answer() if callable(answer) else answer

    return Plain()


def raises(error):
    def hook():
        raise error

    return hook


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (True, ""),
        (False, "__is_ready__ returned False"),
        (None, "__is_ready__ returned None, and must return True or False"),
        (1, "__is_ready__ returned 1, and must return True or False"),
        (raises(ValueError("no feed")), "__is_ready__ raised ValueError: no feed"),
        (raises(SystemExit(3)), "__is_ready__ raised SystemExit: 3"),
        (raises(TimeoutError("mine")), "__is_ready__ raised TimeoutError: mine"),
        (raises(StopIteration()), "__is_ready__ raised StopIteration"),
        (raises(asyncio.CancelledError()), "__is_ready__ raised CancelledError"),
    ],
)
def test_only_true_is_yes(answer, why):
    assert asyncio.run(why_not(of(answer), IS_READY, timeout_s=5)).removesuffix(": ") == why

    class Async:
        async def __is_ready__(self):
            return answer() if callable(answer) else answer

    if not isinstance(answer, bool) and "StopIteration" in why:
        return  # Python makes a RuntimeError of it in a coroutine
    assert asyncio.run(why_not(Async(), IS_READY, timeout_s=5)).removesuffix(": ") == why


def test_no_answer_in_time_is_no():
    release = threading.Event()

    class Hangs:
        def __is_alive__(self):
            return release.wait(20)

        async def __is_ready__(self):
            await asyncio.sleep(20)
            return True

    async def ask():
        begun = time.monotonic()
        found = [await why_not(Hangs(), name, timeout_s=0.05) for name in (IS_ALIVE, IS_READY)]
        return found, time.monotonic() - begun

    (alive, ready), took_s = asyncio.run(ask())
    release.set()
    assert alive == "__is_alive__ did not answer within 0.05 s"
    assert ready == "__is_ready__ did not answer within 0.05 s"
    assert took_s < 10


def test_who_asks_can_be_cancelled():
    class Hangs:
        async def __is_ready__(self):
            await asyncio.sleep(20)
            return True

    async def ask():
        task = asyncio.create_task(why_not(Hangs(), IS_READY, timeout_s=20))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert asyncio.run(ask())


def test_hooks_that_could_not_be_asked_are_refused_where_they_stand():
    with pytest.raises(InvalidConfig, match=r"Wrong\.__is_ready__ is called without arguments"):

        @trilith.service
        class Wrong:
            def __is_ready__(self, more):
                return True

            @trilith.api
            async def a(self) -> int: ...

    with pytest.raises(InvalidConfig, match=r"Wrong\.__is_alive__ must be a method"):

        @trilith.service
        class Wrong:
            __is_alive__ = True

            @trilith.api
            async def a(self) -> int: ...

    with pytest.raises(InvalidConfig, match="health_failures has no effect in a service without"):

        @trilith.service(health_failures=2)
        class Wrong:
            @trilith.api
            async def a(self) -> int: ...

    with pytest.raises(InvalidConfig, match="health_interval_s must be a number above 0"):

        @trilith.service(health_interval_s=0)
        class Wrong:
            @trilith.api
            async def a(self) -> int: ...

    assert has_hook(int, "__is_ready__") is False


ran: list[str] = []


@trilith.on_deploy
def beside() -> None:
    ran.append("beside")


@trilith.service
class Inner:
    @trilith.on_deploy
    def first() -> None:
        ran.append("Inner.first")

    @trilith.on_deploy(timeout_s=5)
    @classmethod
    async def second(cls) -> None:
        ran.append(cls.__name__ + ".second")

    @trilith.api
    async def a(self) -> int:
        return 1


@trilith.service
class Outer:
    inner = trilith.depends(Inner)

    @staticmethod
    @trilith.on_deploy
    def fetch() -> None:
        ran.append("Outer.fetch")

    @trilith.api
    async def a(self) -> int:
        return 1


def test_each_runs_once_what_is_depended_on_first():
    hooks = deploy_hooks(service_graph(spec_of(Outer)))
    assert [hook.where for hook in hooks] == ["beside", "Inner.first", "Inner.second", "Outer.fetch"]
    assert [hook.timeout_s for hook in hooks] == [600, 600, 5, 600]
    ran.clear()
    for hook in hooks:
        asyncio.run(run_deploy_hook(hook))
    assert ran == ["beside", "Inner.first", "Inner.second", "Outer.fetch"]


def hook_of(function, **options):
    class Holder:
        @trilith.api
        async def a(self) -> int:
            return 1

    Holder.hook = trilith.on_deploy(**options)(function) if options else trilith.on_deploy(function)
    found = deploy_hooks(service_graph(spec_of(trilith.service(Holder))))
    return next(hook for hook in found if hook.where == "Holder.hook")


def test_one_that_fails_says_what_and_where():
    with pytest.raises(SetupError, match=r"^Holder.hook, which runs before a deployment, raised ValueError: no disk$"):
        asyncio.run(run_deploy_hook(hook_of(raises(ValueError("no disk")))))
    with pytest.raises(SetupError, match="raised SystemExit: 3"):
        asyncio.run(run_deploy_hook(hook_of(raises(SystemExit(3)))))
    with pytest.raises(QueueFull, match=r"^full$"):
        asyncio.run(run_deploy_hook(hook_of(raises(QueueFull("full")))))


def test_one_that_takes_too_long_is_given_up():
    release = threading.Event()

    async def hangs():
        await asyncio.sleep(20)

    for function in (lambda: release.wait(20), hangs):
        with pytest.raises(SetupError, match=r"did not end within 0\.05 s"):
            asyncio.run(run_deploy_hook(hook_of(function, timeout_s=0.05)))
    release.set()


def test_what_is_no_such_function_is_refused():
    with pytest.raises(InvalidConfig, match="stands on a function, got 5"):
        trilith.on_deploy(5)
    with pytest.raises(InvalidConfig, match="timeout_s must be a number of seconds above 0"):
        trilith.on_deploy(timeout_s=0)
    with pytest.raises(InvalidConfig, match=r"Holder.hook: .*leave `self` out"):
        hook_of(lambda self: None)

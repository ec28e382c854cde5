"""One call after another through a host: errors, cancellation, deadlines, threads, context."""

import asyncio
import contextvars
import logging
import threading
import time

import pytest

import trilith
from trilith.core.context import Context
from trilith.core.timeline import DECODED, ENCODED, INFER, STARTED, Timeline
from trilith.errors import (
    Cancelled,
    DeadlineExceeded,
    Draining,
    InvalidInput,
    NotFound,
    QueueFull,
    ServiceError,
    SetupError,
)
from trilith.service import InProcessResolver, ServiceCall, ServiceHost, tracing
from trilith.wire.calls import CallMeta

release = threading.Event()


@trilith.service(threads=2)
class Every:
    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.cancelled = 0
        self.blocked = 0
        self.begun = asyncio.Event()

    @trilith.api
    async def echo(self, x: list[float]) -> list[float]:
        return x

    @trilith.api
    def where(self) -> list[bool]:
        main = threading.current_thread() is threading.main_thread()
        return [main, self.thread is threading.main_thread()]

    @trilith.api
    async def on_loop(self) -> bool:
        return threading.current_thread() is threading.main_thread()

    @trilith.api
    async def raises(self, what: str) -> None:
        raise {
            "value": ValueError("secret"),
            "queue": QueueFull("full"),
            "input": InvalidInput("bad"),
            "setup": SetupError("secret"),
            "exit": SystemExit(3),
            "cancel": asyncio.CancelledError(),
            "stop": StopAsyncIteration(),
        }[what]

    @trilith.api
    def raises_in_thread(self, what: str) -> None:
        raise {"value": ValueError("secret"), "stop": StopIteration(5), "exit": SystemExit()}[what]

    @trilith.api
    async def wait(self) -> int:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return 1

    @trilith.api(timeout_s=0.01)
    async def slow(self) -> int:
        await asyncio.get_running_loop().create_future()
        return 1

    @trilith.api
    def block(self) -> int:
        self.blocked += 1
        release.wait(10)
        return 1

    @trilith.api
    async def uses_tasks(self) -> int:
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(0, 4))
        return task.result()

    @trilith.api
    async def about(self) -> list[str]:
        context = trilith.context()
        return [context.request_id, context.headers.get("accept", ""), str(tracing.get())]

    @trilith.api
    def about_in_thread(self) -> str:
        return trilith.context().request_id

    @trilith.api
    async def wrong(self) -> int:
        return object()  # type: ignore[return-value]


def test_a_call(call_once):
    answer = call_once(Every, "echo", b'{"x":[1,2.5]}')
    assert answer.body == b"[1.0,2.5]"
    assert answer.meta.content_type == "application/json"
    assert answer.meta.timeline is None


def test_constructor_and_synchronous_methods_run_in_threads(call_once):
    assert call_once(Every, "where").body == b"[false,false]"
    assert call_once(Every, "on_loop").body == b"true"


def test_an_unknown_method(call_once):
    with pytest.raises(NotFound, match="service Every has no method 'nothing'; it has echo, where"):
        call_once(Every, "nothing")


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("raises", "value"),
        ("raises", "setup"),
        ("raises", "exit"),
        ("raises", "cancel"),
        ("raises", "stop"),
        ("raises_in_thread", "value"),
        ("raises_in_thread", "stop"),
        ("raises_in_thread", "exit"),
    ],
)
def test_what_a_method_raises_is_logged_and_hidden(call_once, caplog, method, what):
    with pytest.raises(ServiceError, match=f"^Every.{method} failed; see the server's log, request id r1$"):
        call_once(Every, method, f'{{"what": "{what}"}}'.encode())
    [record] = [record for record in caplog.records if record.name == "trilith.service"]
    assert record.levelno == logging.ERROR
    assert record.exc_info
    assert "(request r1)" in record.getMessage()


def test_debug_shows_it(call_once, caplog):
    with pytest.raises(ServiceError, match=r"^Every.raises raised ValueError: secret$"):
        call_once(Every, "raises", b'{"what": "value"}', debug=True)


def test_a_result_of_another_type_is_logged(call_once, caplog):
    with pytest.raises(ServiceError, match="failed"):
        call_once(Every, "wrong")
    assert "Every.wrong returned object and declares int" in caplog.text


@pytest.mark.parametrize(("what", "error"), [("queue", QueueFull), ("input", InvalidInput)])
def test_trilith_errors_pass_with_their_code(call_once, caplog, what, error):
    with pytest.raises(error, match=r"^(full|bad)$"):
        call_once(Every, "raises", f'{{"what": "{what}"}}'.encode())
    assert not caplog.records


def test_timeouts_and_task_groups_work(call_once):
    assert call_once(Every, "uses_tasks").body == b"4"


def test_a_caller_who_goes_cancels_the_method(serve):
    async def scenario(hosted):
        call, future = hosted.make("wait")
        hosted.host.handle(call)
        await hosted.host.instance.begun.wait()
        assert hosted.host.in_flight == 1
        call.cancel()
        with pytest.raises(Cancelled):
            await future
        await hosted.idle()
        assert hosted.host.instance.cancelled == 1
        call.cancel()  # a second time does nothing

    serve(Every, scenario)


def test_the_methods_own_time_limit(call_once, caplog):
    with pytest.raises(
        DeadlineExceeded, match=r"Every.slow did not answer within [\d.]+ s\. The limit is timeout_s of"
    ):
        call_once(Every, "slow")
    assert not caplog.records


def test_the_callers_deadline(serve):
    async def scenario(hosted):
        later, later_future = hosted.make("wait", deadline=time.monotonic() + 100)
        sooner, sooner_future = hosted.make("wait", deadline=time.monotonic() + 0.01)
        hosted.host.handle(later)
        hosted.host.handle(sooner)
        with pytest.raises(DeadlineExceeded):
            await sooner_future
        assert not later.done
        later.cancel()
        with pytest.raises(Cancelled):
            await later_future

    serve(Every, scenario)


def test_a_thread_holds_its_slot_until_it_ends(serve, caplog):
    release.clear()

    async def scenario(hosted):
        call, future = hosted.make("block", deadline=time.monotonic() + 0.01)
        hosted.host.handle(call)
        with pytest.raises(DeadlineExceeded):
            await future
        assert hosted.host.in_flight == 1
        release.set()
        await hosted.idle()

    serve(Every, scenario)
    assert not caplog.records


def test_a_call_that_was_given_up_before_a_thread_was_free_is_not_run(serve):
    release.clear()

    async def scenario(hosted):
        blocked = [hosted.make("block") for _ in range(2)]
        waiting, future = hosted.make("block")
        for call, _ in blocked:
            hosted.host.handle(call)
        hosted.host.handle(waiting)
        waiting.cancel()
        with pytest.raises(Cancelled):
            await future
        release.set()
        await asyncio.gather(*(future for _, future in blocked))
        await hosted.idle()
        assert hosted.host.instance.blocked == 2

    serve(Every, scenario)


def test_stopping_answers_what_still_runs():
    async def scenario():
        host = ServiceHost(Every, InProcessResolver())
        await host.start()
        outcomes = []

        def make():
            meta = CallMeta("Every", "wait", "application/json", "r1")
            context = Context(request_id="r1", timeline=Timeline("s", 2))
            return ServiceCall(meta, [b"{}"], context, lambda outcome, buffers: outcomes.append(outcome))

        host.handle(make())
        await host.instance.begun.wait()
        await host.stop()
        assert isinstance(outcomes[0], Draining)
        host.handle(make())
        assert isinstance(outcomes[1], Draining)

    asyncio.run(scenario())


def test_the_context_of_a_call(serve):
    async def scenario(hosted):
        assert await hosted.body("about", accept="x/y, */*") == b'["r1","x/y, */*","False"]'
        assert await hosted.body("about", trace=True) == b'["r1","","True"]'
        assert await hosted.body("about_in_thread") == b'"r1"'

    serve(Every, scenario)


def test_outside_a_call_the_context_is_empty():
    assert contextvars.copy_context().run(trilith.context).request_id == ""


def test_the_timeline_travels_when_it_is_asked_for(call_once):
    timeline = Timeline.from_builtins(call_once(Every, "echo", b'{"x":[1]}', trace=True).meta.timeline)
    assert [stage for stage, _ in timeline.stamps] == [STARTED, DECODED, INFER, ENCODED]


def test_calls_that_are_answered_hold_no_slot(serve):
    async def scenario(hosted):
        for _ in range(3):
            await hosted.call("echo", b'{"x":[1]}')
        with pytest.raises(InvalidInput):
            await hosted.call("echo", b"{}")
        assert hosted.host.in_flight == 0

    serve(Every, scenario)


def test_a_constructor_that_raises():
    @trilith.service
    class Broken:
        def __init__(self) -> None:
            raise KeyError("weights")

        @trilith.api
        def read(self) -> int:
            return 1

    with pytest.raises(SetupError, match=r"Broken could not be built: its constructor raised KeyError: 'weights'"):
        asyncio.run(ServiceHost(Broken, InProcessResolver()).start())


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_functions_are_hosted_too(call_once, kind):
    if kind == "async":

        @trilith.service
        async def add(a: int, b: int = 1) -> int:
            return a + b
    else:

        @trilith.service
        def add(a: int, b: int = 1) -> int:
            return a + b

    assert call_once(add, "add", b'{"a": 2}').body == b"3"


def test_a_call_that_is_cancelled_before_its_first_step_ends_too(serve):
    async def scenario(hosted):
        ended = []
        for method in ("wait", "uses_tasks"):
            call, future = hosted.make(method)
            call.on_end = lambda: ended.append(1)
            hosted.host.handle(call)
            call.cancel()  # in the same turn of the loop: its task has not begun
            with pytest.raises(Cancelled):
                await future
            await hosted.idle()
            assert not call.working
        assert ended == [1, 1]

    serve(Every, scenario)

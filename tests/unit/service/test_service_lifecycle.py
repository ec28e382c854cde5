"""Entered before the first call, left after the last; bounded, and never a reason not to end."""

import asyncio
import logging
import sys
import threading
from types import SimpleNamespace

import pytest

import trilith
from trilith.core.log_options import LogOptions
from trilith.errors import Bug, InvalidConfig, SetupError
from trilith.orchestration.engine import worker
from trilith.orchestration.engine.launch import WorkerArguments
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


def test_threads_that_all_hang_do_not_keep_it_from_being_left():
    go_on, hangs = threading.Event(), threading.Event()

    def hang():
        hangs.set()
        go_on.wait(20)

    def enter(self):
        pass

    def leave(self, *error):
        self.events.append("left")
        go_on.set()

    service, events = recorded(__enter__=enter, __exit__=leave)

    async def serve():
        host = ServiceHost(service, InProcessResolver())
        await host.start()
        threads = host.spec.options.threads
        hanging = [asyncio.ensure_future(host._in_thread(hang)) for _ in range(threads)]
        assert await asyncio.to_thread(hangs.wait, 20)
        await host.stop()
        await asyncio.gather(*hanging)

    asyncio.run(serve())
    assert events == ["left"]


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_whatever_its_methods_raise_is_theirs(raised, asynchronous, caplog):
    def fail(self, *error):
        raise raised

    async def fail_later(self, *error):
        if isinstance(raised, StopIteration):
            next(iter(()))  # a coroutine makes RuntimeError of it
        raise raised

    async def nothing(self):
        pass

    names = ("__aenter__", "__aexit__") if asynchronous else ("__enter__", "__exit__")
    method, well = (fail_later, nothing) if asynchronous else (fail, lambda self: None)
    refused, _ = recorded(**{names[0]: method, names[1]: well})
    with pytest.raises(SetupError, match=f"{names[0]} raised"):
        asyncio.run(life(refused))
    service, _ = recorded(**{names[0]: well, names[1]: method})
    with caplog.at_level(logging.ERROR):
        asyncio.run(life(service))
    assert "Recorded was left, and that raised" in caplog.text


def test_a_constructor_that_exits_cannot_end_its_process():
    service, _ = recorded(__init__=lambda self: sys.exit(3))
    with pytest.raises(SetupError, match="its constructor raised SystemExit: 3"):
        asyncio.run(life(service))


def test_a_cancellation_of_who_leaves_is_passed_on():
    async def enter(self):
        pass

    async def serve():
        leaving = asyncio.Event()

        async def leave(self, *error):
            leaving.set()
            await asyncio.sleep(3600)

        service, _ = recorded(__aenter__=enter, __aexit__=leave)
        host = ServiceHost(service, InProcessResolver())
        await host.start()
        stopping = asyncio.ensure_future(host.stop())
        await leaving.wait()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping

    asyncio.run(serve())


def test_a_worker_whose_serving_fails_leaves_its_instance(tmp_path, monkeypatch):
    source = tmp_path / "left.py"
    source.write_text(
        "import pathlib, trilith\n"
        "@trilith.service\nclass Left:\n"
        "    async def __aenter__(self):\n        return self\n"
        f"    async def __aexit__(self, *error):\n        pathlib.Path({str(tmp_path / 'said')!r}).write_text('left')\n"
        "    @trilith.api\n    async def well(self) -> int:\n        return 1\n"
    )

    async def close(timeout_s):
        pass

    async def connect(path, *, grant, prepare):
        return SimpleNamespace(notify=lambda message: None, grant=0, close=close)

    async def messages():
        raise Bug("a control message cannot be read")
        yield

    monkeypatch.setattr(worker, "connect", connect)
    arguments = WorkerArguments(
        target=f"{source}:Left",
        folder=str(tmp_path),
        service="Left",
        replica_id=1,
        revision=1,
        peers_path="",
        model_roots=[],
        uploads=str(tmp_path),
        debug=False,
        log=LogOptions(),
    )
    with pytest.raises(Bug, match="a control message"):
        asyncio.run(worker.Worker(arguments, SimpleNamespace(messages=messages)).run())
    assert (tmp_path / "said").read_text() == "left"


@pytest.mark.parametrize("asynchronous", [True, False])
def test_what_is_not_entered_in_one_process_is_said(asynchronous):
    async def count(self) -> int:
        return self.n

    def count_here(self) -> int:
        return self.n

    async def enter(self):
        self.n = 1

    async def leave(self, *error):
        pass

    method = count if asynchronous else count_here
    counted = trilith.service(
        type(
            "Counter",
            (),
            {
                "__module__": __name__,
                "__aenter__": enter,
                "__aexit__": leave,
                method.__name__: trilith.api(method),
            },
        )
    )

    class Uses:
        counter = trilith.depends(counted)

    with pytest.raises(AttributeError, match="has no attribute 'n'") as caught:
        asyncio.run(getattr(Uses().counter, method.__name__)())
    assert "Counter has __aenter__" in "".join(caught.value.__notes__)
    assert "is not entered" in "".join(caught.value.__notes__)

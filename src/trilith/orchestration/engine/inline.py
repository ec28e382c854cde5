"""`--inline`: the service runs in the foreground process, which has the terminal. For `breakpoint()` and debuggers.

Rule 1: the user's code has the main thread, as in a worker. The agent has a thread of its own; the gateway is a process
    as always, so that a handler that stands at a breakpoint keeps no client from connecting.
Rule 2: nobody looks at a clock: time limits of methods and of starts are those of a month, and silence is no fault.
Rule 3: one replica of each service, all in this process. What one of them takes with it ends the server.
Rule 4: the server's end does not wait for the user's code, which may hang in this thread or in others: once the agent
    has ended, or a person has asked twice, the process ends, in order or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import termios
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilith.orchestration.engine.control_channel import ControlChannel, open_channel
from trilith.orchestration.engine.heard_signals import heard_signals
from trilith.orchestration.engine.launch import WorkerArguments
from trilith.orchestration.engine.process import ChildProcess
from trilith.orchestration.spec import ServeOptions

if TYPE_CHECKING:
    from trilith.service import AppDescription

ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that end a server."""

_STANDARD_INPUT: Final = 0
_LET_GO_S: Final = 1.0  # for what the user's code does at the end of the process, when all else has ended

PATIENCE_S: Final = 30 * 24 * 3600.0
"""How long everything may take that has a limit otherwise."""

Run = Callable[[WorkerArguments, ControlChannel], Coroutine[Any, Any, int]]
"""Runs one replica on the loop of the main thread; what a process would exit with."""


def patient_options(options: ServeOptions) -> ServeOptions:
    """The options of a server whose handlers may stand at a breakpoint."""
    return replace(options, replicas=1, unresponsive_s=PATIENCE_S, debug=True)


def patient_description(description: AppDescription) -> AppDescription:
    """An application with one replica of each service, without bounds on cores (they hold for processes) and time."""
    services = [
        msgspec.structs.replace(
            service,
            replicas=1,
            cpu=None,
            timeout_s=PATIENCE_S,
            methods=[msgspec.structs.replace(method, timeout_s=PATIENCE_S) for method in service.methods],
            mounts=[msgspec.structs.replace(mount, timeout_s=PATIENCE_S) for mount in service.mounts],
        )
        for service in description.services
    ]
    return msgspec.structs.replace(description, services=services)


def keep_interrupts() -> None:
    """Has `breakpoint()` leave Ctrl-C to the server: pdb would take it, and stop in the middle of the event loop.

    Whoever chose a debugger (`PYTHONBREAKPOINT`, `sys.breakpointhook`) keeps it.
    """
    if sys.breakpointhook is sys.__breakpointhook__ and not os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook = _stop_here


def _stop_here(*_: object, **__: object) -> None:
    import pdb

    pdb.Pdb(nosigint=True).set_trace(sys._getframe(1))


class Foreground:
    """The main thread: runs replicas that the agent, in its own thread, starts here."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._abandoned = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def serve(self, agent: Callable[[Foreground], int], on_signal: Callable[[signal.Signals], None]) -> int:
        """Runs the agent in a thread, and replicas here, until the agent returns: the exit code.

        Args:
            agent: blocks until the server ends.
            on_signal: is told of SIGINT, SIGTERM and SIGHUP, in a thread of its own.
        """
        import uvloop  # as a worker; an agent without a foreground has no need of it

        heeded = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]

        async def heed() -> int:
            with heard_signals(heeded, on_signal):
                return await self._serve(agent)

        return uvloop.run(heed())

    async def _serve(self, agent: Callable[[Foreground], int]) -> int:
        loop = self._loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        terminal = _terminal_state()

        def work() -> None:
            code, failed = 1, None
            try:
                code = agent(self)
            except BaseException as error:  # noqa: BLE001 - it belongs to who waits for the future
                failed = error
            if self._abandoned and failed is None:
                _end_process(code, terminal)
            late = threading.Timer(_LET_GO_S, _end_process, (code, terminal))
            late.daemon = True  # what ends before it, ends in order
            late.start()
            if failed is None:
                loop.call_soon_threadsafe(ended.set_result, code)
            else:
                loop.call_soon_threadsafe(ended.set_exception, failed)

        thread = threading.Thread(target=work, name="trilith agent")
        thread.start()
        try:
            return await ended
        finally:
            thread.join()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def start(self, arguments: WorkerArguments) -> InlineReplica:
        """Starts a replica in the main thread. Called on the agent's loop."""
        main, agents = self._loop, asyncio.get_running_loop()
        if main is None:
            raise RuntimeError("start a Foreground by its method `serve`")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        exited: asyncio.Future[int] = agents.create_future()
        replica = InlineReplica(await open_channel(ours), exited, self._abandon)

        async def live() -> None:
            code = 1
            try:
                channel = await open_channel(theirs)
                try:
                    code = await self._run(arguments, channel)
                finally:
                    channel.close()
            finally:
                with contextlib.suppress(RuntimeError):  # the agent's loop has ended
                    agents.call_soon_threadsafe(_resolve, exited, code)

        def begin() -> None:
            task = asyncio.ensure_future(live())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            replica.cancel = lambda: main.call_soon_threadsafe(task.cancel)

        main.call_soon_threadsafe(begin)
        return replica

    def _abandon(self) -> None:
        self._abandoned = True


class InlineReplica(ChildProcess):
    """A replica in the main thread of this process, as the agent sees its children."""

    def __init__(self, channel: ControlChannel, exited: asyncio.Future[int], abandoned: Callable[[], object]) -> None:
        """`abandoned`: told that it is left behind in the middle of something."""
        self.channel = channel
        self._exited = exited
        self._abandoned = abandoned
        self.cancel: Callable[[], object] = lambda: None

    @property
    def pid(self) -> int:
        """That of this process."""
        return os.getpid()

    @property
    def alive(self) -> bool:
        """Whether its end has not been seen."""
        return not self._exited.done()

    async def wait(self) -> int:
        """Waits for its end."""
        return await asyncio.shield(self._exited)

    def kill(self) -> None:
        """Cancels it. Code that blocks the main thread, or stands at a breakpoint, goes on until it yields."""
        if self.alive:
            self.cancel()

    def abandon(self) -> None:
        """Counts as ended from now on, whatever its code still does: this process is about to end."""
        if self.alive:
            self._abandoned()
            self.cancel()
            self._exited.set_result(-signal.SIGKILL)


def _terminal_state() -> list[Any] | None:
    """How the terminal is set; None when there is none."""
    try:
        return termios.tcgetattr(_STANDARD_INPUT)
    except (termios.error, OSError):
        return None


def _end_process(code: int, terminal: list[Any] | None) -> None:
    """Ends this process at once. What it printed is not lost, nor is the terminal left as a debugger has set it."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if terminal is not None:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(_STANDARD_INPUT, termios.TCSANOW, terminal)
    os._exit(code)


def _resolve(exited: asyncio.Future[int], code: int) -> None:
    if not exited.done():
        exited.set_result(code)

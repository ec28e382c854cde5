"""One child process of the agent: started by exec, told by a control channel, gone when its exit is seen.

Rule: children are started by exec, never by fork, and die with the agent (the child asks the kernel for that itself).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Final

from trilith.core import forks
from trilith.errors import Bug, SetupError
from trilith.orchestration.engine.control import AnyMessage
from trilith.orchestration.engine.control_channel import ControlChannel, open_channel

_log: Final = logging.getLogger("trilith.agent")
_MOST_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> int:
    """Lets this process open as many files as it may, up to 65,536; the number.

    The limit that a shell sets (1024, usually) is meant for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


async def open_to_agent(control_fd: int) -> ControlChannel:
    """The child's end of the control channel; from here on only the agent, through it, says when to stop.

    A signal to every process of the server (a service manager's, say) would otherwise end a child before its turn.
    """
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(signal_number, lambda: None)
    forks.outlive_here((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    return await open_channel(socket.socket(fileno=control_fd))


class ChildProcess:
    """A started child and its control channel."""

    def __init__(self, process: asyncio.subprocess.Process, channel: ControlChannel) -> None:
        self._process = process
        self.channel = channel

    @classmethod
    async def start(
        cls, module: str, name: str, arguments: str, *, pass_fds: Sequence[int] = (), environment: dict[str, str]
    ) -> ChildProcess:
        """Runs `python -P -m module NAME CONTROL_FD PARENT_PID ARGUMENTS` with the file descriptors passed on.

        `name` is for people who look at the processes of a machine.

        Raises:
            SetupError: the system does not start one more process: it has no memory, process or descriptor for it.
        """
        command = ("-P", "-m", module, name)  # -P: a `json.py` in the current folder is the application's
        with contextlib.ExitStack() as undo:
            try:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
                undo.callback(ours.close)
                with theirs:
                    process = await asyncio.create_subprocess_exec(
                        sys.executable,
                        *(*command, str(theirs.fileno()), str(os.getpid()), arguments),
                        pass_fds=(theirs.fileno(), *pass_fds),
                        stdin=asyncio.subprocess.DEVNULL,
                        process_group=0,  # a terminal's Ctrl-C is the agent's alone: it stops the others in their order
                        env=environment,
                    )
                undo.callback(_kill, process)
                child = cls(process, await open_channel(ours))
            except (OSError, RuntimeError) as error:  # the second is Python's, for a thread that cannot be started
                raise SetupError(f"the process of {name} could not be started: {error}") from error
            undo.pop_all()
        return child

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the exit has not been seen."""
        return self._process.returncode is None

    async def wait(self) -> int:
        """Waits for the exit; the return code as `subprocess` gives it (negative: killed by that signal)."""
        return await self._process.wait()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        _kill(self._process)

    def abandon(self) -> None:
        """Kills it at the end of the server: nobody waits for anything that it still does."""
        self.kill()

    async def messages(self) -> AsyncIterator[AnyMessage]:
        """What it says until it exits. The channel alone does not tell: a child of its own may keep it open."""
        exited = asyncio.ensure_future(self.wait())
        exited.add_done_callback(lambda _: self.channel.close())
        try:
            async for message in self.channel.messages():
                yield message
        except Bug as bug:
            self.refuse(bug)
        await exited

    def refuse(self, bug: Bug) -> None:
        """Kills it for what it said: something in it wrote to a descriptor that is not its own to use."""
        _log.error("process %s was killed: %s", self.pid, bug.message)
        self.kill()

    async def end_within(self, limit_s: float) -> None:
        """Waits for the exit, and kills what has not exited after `limit_s` seconds."""
        try:
            await asyncio.wait_for(self.wait(), limit_s)
        except TimeoutError:
            self.abandon()
            await self.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        if process.returncode is None:
            process.kill()

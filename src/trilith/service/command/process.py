"""The process of a command, as its replica sees it: started through its keeper, told signals, heard, and ended.

Rule 1: it is told once that the process has ended, and why. What it wrote last is kept for that.
Rule 2: what it writes goes to the log line by line (`output.py`), under `trilith.command.NAME`, and never waits.
Rule 3: when the keeper itself is killed, what it kept is ended from here, before anybody is told.
Rule 4: a child that the user's code forks has no part in the conversation: the keeper must see the replica's end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trilith.core import forks
from trilith.core.leftovers import MARK, end_leftovers, mark_of
from trilith.errors import SetupError
from trilith.service.command.keeper import KILL_ALL
from trilith.service.command.output import OutputLines

_KEEPER: Final = str(Path(__file__).with_name("keeper.py"))
_ENDS_WITHIN_S: Final = 8.0  # of all that is killed: more than the keeper tries


class CommandProcess:
    """One run of a command.

    Attributes:
        pid: of the process.
        ended: done when it has ended: how, as words.
    """

    def __init__(self, name: str) -> None:
        """`name`: of the service."""
        self.pid = 0
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._name = name
        self._mark = mark_of(os.getpid())
        self._log = logging.getLogger(f"trilith.command.{name}")
        self._output = OutputLines()
        self._keeper: subprocess.Popen[bytes] | None = None
        self._control: asyncio.StreamWriter | None = None
        self._pipe: asyncio.ReadTransport | None = None
        self._reading: list[asyncio.Task[None]] = []

    @property
    def last_words(self) -> str:
        """What it wrote last, as the end of a sentence; "" when it wrote nothing."""
        return f"; it wrote last: {' | '.join(self._output.last)[-1000:]}" if self._output.last else ""

    async def start(self, arguments: Sequence[str], environment: Mapping[str, str], folder: str | None) -> None:
        """Starts it.

        Raises:
            SetupError: there is no such program or folder, or the system starts no more processes.
        """
        ours, output = self._start_keeper(arguments, environment, folder)
        forks.guard(ours.fileno())
        reader, self._control = await asyncio.open_unix_connection(sock=ours)
        await self._read_output(output)
        said = (await reader.readline()).decode().split()
        if len(said) != 2 or said[0] != "started":
            await self._forget()
            if not said:
                await asyncio.to_thread(end_leftovers, self._mark)
            raise SetupError(self._not_started(said, arguments))
        self.pid = int(said[1])
        self._reading.append(asyncio.create_task(self._hear(reader)))

    def _start_keeper(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: str | None
    ) -> tuple[socket.socket, int]:
        """Our end of its conversation, and the descriptor of what the process writes.

        It is started from this thread, whose end the kernel tells it.
        """
        if folder is not None and not Path(folder).is_dir():
            raise SetupError(f"{self._name}: the command's working folder {folder} is not there")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        output, written = os.pipe()
        try:
            with theirs:
                self._keeper = subprocess.Popen(
                    [sys.executable, "-I", "-S", _KEEPER, str(theirs.fileno()), str(os.getpid()), *arguments],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=written,
                    env={**environment, MARK: self._mark},
                    cwd=folder,
                    start_new_session=True,
                )
        except (OSError, RuntimeError) as error:
            ours.close()
            os.close(output)
            raise SetupError(f"{self._name}: the command could not be started: {error}") from error
        finally:
            os.close(written)
        return ours, output

    def _not_started(self, said: Sequence[str], arguments: Sequence[str]) -> str:
        code = int(said[1]) if len(said) == 2 else 0
        program = arguments[0]
        if code == errno.ENOENT:
            where = "here" if "/" in program else "on PATH"
            return f"{self._name}: the command cannot be started: there is no program {program!r} {where}"
        why = os.strerror(code) if code else f"its keeper ended{self.last_words}"
        return f"{self._name}: the command {program!r} cannot be started: {why}"

    async def _read_output(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        self._pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
        )
        self._reading.append(asyncio.create_task(self._log_output(reader)))

    async def _log_output(self, reader: asyncio.StreamReader) -> None:
        while octets := await reader.read(1 << 16):
            for line in self._output.push(octets, time.monotonic()):
                self._log.info("%s", line)
        for line in self._output.end(time.monotonic()):
            self._log.info("%s", line)

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        said = (await reader.readline()).decode().split()
        told = len(said) == 2 and said[0] == "ended"
        how = _how_it_ended(int(said[1])) if told else "its keeper was killed"
        if not told:
            await asyncio.to_thread(end_leftovers, self._mark, self.pid)
        await asyncio.wait(self._reading[:1], timeout=1.0)  # what it wrote before it died
        if not self.ended.done():
            self.ended.set_result(how)

    def send_signal(self, number: int) -> None:
        """Sends the process, and no other, a signal."""
        if self._control is not None:
            self._control.write(bytes([number]))

    async def end(self, stop_signal: str, timeout_s: float) -> None:
        """Asks it to end, and kills it and all that it started after `timeout_s` seconds."""
        if not self.pid:
            await self._forget()
            return
        if not self.ended.done() and timeout_s > 0:
            self.send_signal(signal.Signals[stop_signal].value)
            await asyncio.wait([self.ended], timeout=timeout_s)
        if not self.ended.done():
            if timeout_s > 0:
                self._log.warning("it was asked to end and did not within %.3g s: it is killed", timeout_s)
            self.send_signal(KILL_ALL)
            await asyncio.wait([self.ended], timeout=_ENDS_WITHIN_S)
        await self._forget()

    async def _forget(self) -> None:
        """Lets go of the keeper, which ends when it is let go."""
        if self._control is not None:
            forks.release(self._control.get_extra_info("socket").fileno())
            self._control.close()
            with contextlib.suppress(OSError):
                await self._control.wait_closed()
            self._control = None
        if self._reading:
            await asyncio.wait(self._reading, timeout=1.0)
        for task in self._reading:
            task.cancel()
        if self._pipe is not None:
            self._pipe.close()
        if self._keeper is not None:
            await asyncio.to_thread(_reaped, self._keeper)
            self._keeper = None


def _reaped(keeper: subprocess.Popen[bytes]) -> None:
    try:
        keeper.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"it ended with status {status}"
    try:
        return f"it was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"it was killed by signal {-status}"

"""The command of one replica while it runs: started and waited for, asked how it is, ended.

Rule 1: it is ready when it answers at its readiness path. Its end before that, or no answer in time, ends the start,
    with what it wrote last.
Rule 2: when it ends later, who runs the replica is told: the replica is of no use any more.
Rule 3: silence is when it neither answers at its readiness path nor says an octet to anybody. That it has requests is
    no sign of life: clients send them to a process that hangs as well. While it has any, silence alone does not make
    it unready: it may take one at a time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from trilith.core.foreign import named_error
from trilith.errors import InvalidConfig, SetupError
from trilith.service.command.declared import COMMAND_HOOK
from trilith.service.command.options import PORT, Command, checked_arguments
from trilith.service.command.ports import HOST, take_port
from trilith.service.command.process import CommandProcess
from trilith.service.command.upstream import Upstream, ask_status
from trilith.service.user_errors import USER_ERRORS

_ASKS_EVERY_S: Final = 0.1
_ANSWERS_WITHIN_S: Final = 5.0
_DOUBTS_AFTER_S: Final = 5.0

_log: Final = logging.getLogger("trilith.service")


class Look(NamedTuple):
    """What a look at the process found.

    Attributes:
        why_not: why it is not ready; "" when it is.
        silence: why it is taken for dead; "" when it gave a sign of life.
    """

    why_not: str
    silence: str = ""


class RunningCommand:
    """One run.

    Attributes:
        url: where the process is reached.
        upstream: the connections to it.
        held: requests that it has now.
    """

    def __init__(self, name: str, command: Command, arguments: Sequence[str]) -> None:
        """Args:
            name: of the service.
            command: what it declares.
            arguments: of `arguments_of`.

        Raises:
            SetupError: its port is taken.
        """
        self._name = name
        self._command = command
        self._arguments = arguments
        self.port = take_port(name, command.port)
        self.url = f"http://{HOST}:{self.port}"
        self.upstream = Upstream(HOST, self.port)
        self.held = 0
        self._heard_bytes = 0
        self._process = CommandProcess(name)
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> None:
        """Starts the process, and returns when it is ready.

        Raises:
            SetupError: there is no such program, it ended, or it was not ready in time.
        """
        port = str(self.port)
        environment = {**os.environ, "PORT": port}
        environment.update({name: value.replace(PORT, port) for name, value in self._command.environment.items()})
        arguments = [one.replace(PORT, port) for one in self._arguments]
        try:
            await self._process.start(arguments, environment, self._command.folder)
            await self._until_ready()
        except BaseException:
            await self.stop(0.0)
            raise

    async def _until_ready(self) -> None:
        began_at = time.monotonic()
        ends_at = began_at + self._command.start_timeout_s
        doubt = unsaid_port(self._command, self._arguments, self.url)
        while why_not := (await self.look(min(_ANSWERS_WITHIN_S, max(0.1, ends_at - time.monotonic())))).why_not:
            await asyncio.wait([self._process.ended], timeout=_ASKS_EVERY_S)
            if self._process.ended.done():
                break
            if doubt and time.monotonic() >= began_at + _DOUBTS_AFTER_S:
                _log.warning("%s: its command is not ready (%s): %s", self._name, why_not, doubt)
                doubt = ""
            if time.monotonic() >= ends_at:
                raise SetupError(
                    f"{self._name}: its command was not ready within {self._command.start_timeout_s:g} s:"
                    f" {why_not}{self._process.last_words}"
                )
        if self._process.ended.done():  # what answered was another program, if any did
            raise SetupError(
                f"{self._name}: its command is no good: {self._process.ended.result()} before it was ready"
                f"{self._process.last_words}"
            )

    async def look(self, timeout_s: float) -> Look:
        """Asks the process, which has `timeout_s` seconds to answer."""
        path = self._command.ready or "/"
        held = self.held
        status = await ask_status(HOST, self.port, path, timeout_s)
        heard_before, self._heard_bytes = self._heard_bytes, self.upstream.heard_bytes
        if self._process.ended.done():
            how = self._process.ended.result()
            return Look(how, how)
        if isinstance(status, str):
            return Look("" if held else status, status if self._heard_bytes == heard_before else "")
        return Look("" if self._is_ready(status) else f"GET {path} has the status {status}")

    def _is_ready(self, status: int) -> bool:
        if self._command.ready_status is not None:
            return status == self._command.ready_status
        return status < 500 if self._command.ready is None else 200 <= status < 300

    def watch(self, on_end: Callable[[str], None]) -> None:
        """Tells when the process has ended, and how, once."""
        self._watch = asyncio.create_task(self._tell_end(on_end))

    async def _tell_end(self, on_end: Callable[[str], None]) -> None:
        how = await asyncio.shield(self._process.ended)
        if not self._stopping:
            on_end(f"its command has ended: {how}{self._process.last_words}")

    @property
    def how_it_ended(self) -> str:
        """As words; "" while it runs."""
        return self._process.ended.result() if self._process.ended.done() else ""

    async def stop(self, timeout_s: float) -> None:
        """Ends the process, within `timeout_s` seconds and the command's own."""
        self._stopping = True
        if self._watch is not None:
            self._watch.cancel()
        self.upstream.close()
        await self._process.end(self._command.stop_signal, min(timeout_s, self._command.stop_timeout_s))


def unsaid_port(command: Command, arguments: Sequence[str], url: str) -> str:
    """What may be wrong with a command that is told its port by the variable `PORT` alone; "" of every other."""
    if command.port or any(PORT in one for one in (*arguments, *command.environment.values())):
        return ""
    return (
        f"it is asked at {url}, and no argument of it has the port: write {PORT} where it goes, as in ['--port',"
        f" '{PORT}'], unless it reads the variable PORT"
    )


def arguments_of(command: Command, instance: Any, name: str) -> Sequence[str]:
    """The program and its arguments: what the declaration of the service `name` says, or the instance.

    Raises:
        SetupError: its method raised.
        InvalidConfig: it returned no arguments.
    """
    if command.arguments:
        return command.arguments
    try:
        said = getattr(instance, COMMAND_HOOK)()
    except USER_ERRORS as error:
        raise SetupError(f"{name} could not be started: its {COMMAND_HOOK} raised {named_error(error)}") from error
    arguments = checked_arguments(said, f"{name}: what {COMMAND_HOOK} returns")
    if not arguments:
        raise InvalidConfig(f"{name}: {COMMAND_HOOK} returned no program")
    return arguments

"""`trilith serve` from the options to the exit code: the agent alone, or beside a service in the foreground."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

from trilith.core.logs import configure_logging
from trilith.orchestration.engine.agent import Agent
from trilith.orchestration.engine.inline import ENDING, Foreground, keep_interrupts, patient_options
from trilith.orchestration.engine.terminal import Terminal
from trilith.orchestration.spec import ServeOptions


def serve(options: ServeOptions) -> int:
    """Runs a server in the foreground; the exit code. The process is to end then: it heeds no signal any more.

    Raises:
        SetupError: it cannot be started as asked.
    """
    place, colon, name = options.target.partition(":")
    known = "://" in options.target or (bool(colon) and name.isidentifier() and not place.endswith(".py"))
    if not (known or Path(options.target).exists() or (name.isidentifier() and Path(place).is_file())):
        from trilith.service import parse_target  # it says what there is instead; a good target need not wait for it

        parse_target(options.target)
    configure_logging(options.log)
    return _serve_inline(patient_options(options)) if options.inline else asyncio.run(_serve(options))


async def _serve(options: ServeOptions) -> int:
    try:
        return await Agent(options, terminal=Terminal(log=options.log)).run()
    finally:
        for number in ENDING:
            asyncio.get_running_loop().remove_signal_handler(number)
        _heed_none()


def _heed_none() -> None:
    """All is done: whoever still presses Ctrl-C does not cut the interpreter's end."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def _serve_inline(options: ServeOptions) -> int:
    """The agent in a thread, the service in this one."""
    from trilith.orchestration.engine.worker import quiet_libraries, run_inline  # numpy and the user's side of things

    quiet_libraries()
    keep_interrupts()
    running: list[tuple[Agent, asyncio.AbstractEventLoop]] = []

    async def run(foreground: Foreground) -> int:
        agent = Agent(options, terminal=Terminal(log=options.log), foreground=foreground)
        running.append((agent, asyncio.get_running_loop()))
        return await agent.run()

    def signalled(number: signal.Signals) -> None:
        for agent, loop in running:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                loop.call_soon_threadsafe(agent.signalled, number)

    try:
        return Foreground(run_inline).serve(lambda foreground: asyncio.run(run(foreground)), signalled)
    finally:
        _heed_none()

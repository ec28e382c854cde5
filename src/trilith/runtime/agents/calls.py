"""Asks an agent of one's own, in a process that lives as long as the question: its code never runs in the server."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from trilith.errors import SetupError
from trilith.runtime.agents.host import AgentAnswer, AgentRequest
from trilith.runtime.backends.python.installing import Installer

_HOST: Final = "trilith.runtime.agents.host"


class AgentCall:
    """One question. May be stopped from another thread.

    Args:
        script: the agent's file.
        model: the model's name.
        parameters: what its configuration says to the agent.
    """

    def __init__(self, script: Path, model: str, parameters: Mapping[str, str]) -> None:
        self._script = script
        self._model = model
        self._parameters = parameters
        self._runner = Installer()

    def stop(self, reason: str) -> None:
        """Ends its process."""
        self._runner.stop(reason)

    def ask(
        self, action: str, folder: Path, heard: Callable[[], None], *, timeout_s: float | None = None
    ) -> Path | None:
        """What the agent says: another folder, or None. Blocks.

        Args:
            action: `load` or `unload`.
            folder: where the model's files are.
            heard: called with each line that it prints.
            timeout_s: after so many seconds it is stopped; None for never.

        Raises:
            SetupError: it refuses, or its process was stopped or died.
        """
        request = AgentRequest(
            parent=os.getpid(),
            script=str(self._script.absolute()),
            action=action,
            model=self._model,
            folder=str(folder.absolute()),
            parameters=dict(self._parameters),
        )
        with tempfile.TemporaryDirectory(prefix="trilith-agent-") as aside:  # others may not read what is asked
            asked, said = Path(aside, "request"), Path(aside, "answer")
            asked.write_bytes(msgspec.json.encode(request))
            command = [sys.executable, "-P", "-m", _HOST, str(asked), str(said)]
            limit = threading.Timer(timeout_s or 0.0, self.stop, (f"it has not answered within {timeout_s} s",))
            if timeout_s is not None:
                limit.start()
            try:
                code, words = self._runner.run(command, Path(aside), heard)
            finally:
                limit.cancel()
            if not said.exists():
                raise SetupError(
                    f"its process ended with status {code}: {words.rpartition(chr(10))[2] or 'it said nothing'}"
                )
            answer = msgspec.json.decode(said.read_bytes(), type=AgentAnswer)
        if answer.problem:
            raise SetupError(answer.problem)
        return Path(answer.folder) if answer.folder else None

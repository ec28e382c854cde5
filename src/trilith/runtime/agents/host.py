"""The process in which an agent of one's own is asked one thing.

    python -P -m trilith.runtime.agents.host REQUEST ANSWER

    class RepositoryAgent:
        def load(self, model):      # model.name, model.folder (a Path), model.parameters (texts by key)
            ...                     # what it raises refuses the load; another folder that it returns is loaded instead
        def unload(self, model):    # optional: nothing is served any more of what `load` returned for it
            ...

REQUEST and ANSWER are files of JSON. What the agent prints is the server's log.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import msgspec

from trilith.core.foreign import named_error, shortened
from trilith.core.lifeline import die_with_parent

CLASS: Final = "RepositoryAgent"


class AgentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is asked.

    Attributes:
        parent: process id of who asks.
        script: the agent's file.
        action: the method, `load` or `unload`.
        model: the model's name.
        folder: the folder that it would be loaded from, or was.
        parameters: what its configuration says to the agent.
    """

    parent: int
    script: str
    action: str
    model: str
    folder: str
    parameters: dict[str, str]


class AgentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What it said.

    Attributes:
        folder: the folder to load from instead; "" for the same.
        problem: why the model is not to be loaded; "" for nothing.
    """

    folder: str = ""
    problem: str = ""


def answer(request: AgentRequest) -> AgentAnswer:
    """Asks the agent. Whatever it raises is in the answer."""
    try:
        spec = importlib.util.spec_from_file_location("trilith_repository_agent", request.script)
        if spec is None or spec.loader is None:
            return AgentAnswer(problem=f"{request.script} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(Path(request.script).parent))
        spec.loader.exec_module(module)
        if not hasattr(module, CLASS):
            return AgentAnswer(problem=f"{request.script} has no class {CLASS}")
        agent = getattr(module, CLASS)()
        method = getattr(agent, request.action, None)
        if method is None:
            return AgentAnswer() if request.action == "unload" else AgentAnswer(problem=f"{CLASS} has no method load")
        found = method(
            SimpleNamespace(name=request.model, folder=Path(request.folder), parameters=dict(request.parameters))
        )
        if found is None or request.action == "unload":
            return AgentAnswer()
        if not isinstance(found, str | os.PathLike) or not Path(os.fsdecode(found)).is_dir():
            return AgentAnswer(problem=f"load must return a folder or None, got {found!r:.200}")
        return AgentAnswer(folder=str(Path(os.fsdecode(found)).resolve()))
    except BaseException as error:  # noqa: BLE001 - the agent's code: whatever it raises is why
        traceback.print_exc()
        return AgentAnswer(problem=shortened(named_error(error)))


def main(asked: str, said: str) -> None:
    """Answers one request. See above."""
    request = msgspec.json.decode(Path(asked).read_bytes(), type=AgentRequest)
    die_with_parent(request.parent)
    Path(said).write_bytes(msgspec.json.encode(answer(request)))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The agents of one model, in order: each sees the folder that the one before it left.

Rule 1: what agents have begun is ended once, in reverse order: when the load fails, or when nothing is served of it.
Rule 2: an agent that nobody knows is refused by its name, before any is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.agents import checksum
from trilith.runtime.agents.calls import AgentCall
from trilith.runtime.agents.folder import SCRIPT, agent_names, agent_script
from trilith.runtime.load_run import LoadRun
from trilith.runtime.spec import AgentSpec

_log: Final = logging.getLogger("trilith.runtime")
_UNLOAD_S: Final = 30.0

Unloaded = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Agents:
    """Those that there are.

    Attributes:
        folder: holds those of one's own, each a folder with an `agent.py`; None for none.
    """

    folder: Path | None = None

    def check(self, agents: Sequence[AgentSpec], said_in: str) -> None:
        """Sees that a model's agents are there.

        Raises:
            InvalidConfig: one is not, or its parameters are wrong. The message begins with `said_in`.
        """
        for agent in agents:
            if agent.name == checksum.NAME:
                try:
                    checksum.files_of(agent.parameters)
                except InvalidConfig as error:
                    raise InvalidConfig(f"{said_in}: repository agent 'checksum': {error.message}") from error
            elif agent_script(agent.name, self.folder) is None:
                raise InvalidConfig(
                    f"{said_in}: there is no repository agent {agent.name!r:.100}; here are "
                    f"{', '.join((checksum.NAME, *agent_names(self.folder)))}. One of your own is a folder of that "
                    f"name with an {SCRIPT}, and --repoagent-directory says where that folder lies"
                )


class AgentChain:
    """What agents have done for one load.

    Attributes:
        folder: where the model is loaded from.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begun: list[Unloaded] = []

    def began(self, unloaded: Unloaded) -> None:
        """Notes how what an agent has done is ended."""
        self._begun.append(unloaded)

    def close(self) -> None:
        """Ends it. Blocks; never raises, and does nothing the second time."""
        while self._begun:
            self._begun.pop()()


def run_agents(
    agents: Sequence[AgentSpec], known: Agents, name: str, folder: Path, said_in: str, run: LoadRun
) -> AgentChain:
    """Asks a model's agents about a load. Blocks.

    Args:
        agents: in order.
        known: those that there are.
        name: the model's name.
        folder: where its files are.
        said_in: where the agents stand, for messages.
        run: the load; whoever gives it up stops an agent's process.

    Raises:
        InvalidConfig: there is no such agent.
        SetupError: one refuses.
    """
    known.check(agents, said_in)
    chain = AgentChain(folder)
    for agent in agents:
        run.enter(f"asking its repository agent '{agent.name}'")
        try:
            if agent.name == checksum.NAME:
                checksum.verify(chain.folder, agent.parameters, run.heard)
            else:
                _ask(agent, known, name, chain, run)
        except SetupError as error:
            chain.close()
            kind = InvalidConfig if isinstance(error, InvalidConfig) else SetupError
            raise kind(f"model '{name}': {error.message} (repository agent '{agent.name}')") from error
        except BaseException:
            chain.close()
            raise
    return chain


def _ask(agent: AgentSpec, known: Agents, name: str, chain: AgentChain, run: LoadRun) -> None:
    script = agent_script(agent.name, known.folder)
    if script is None:
        raise SetupError("it has gone")
    call = AgentCall(script, name, agent.parameters)
    run.on_give_up(call.stop)
    before = chain.folder
    chain.folder = call.ask("load", before, run.heard) or before
    found = chain.folder
    chain.began(lambda: _unload(script, agent, name, found))


def _unload(script: Path, agent: AgentSpec, name: str, folder: Path) -> None:
    try:
        AgentCall(script, name, agent.parameters).ask("unload", folder, lambda: None, timeout_s=_UNLOAD_S)
    except (SetupError, OSError) as error:
        _log.error("model '%s': its repository agent '%s' was not told of the unload: %s", name, agent.name, error)

"""Agents of one's own: `FOLDER/NAME/agent.py`.

Rule 1: the folder is looked at when a model is loaded: an agent may come, or change, while the server runs.
Rule 2: no name leads out of the folder, and nothing is fetched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCRIPT: Final = "agent.py"


def agent_script(name: str, folder: Path | None) -> Path | None:
    """The script of an agent, or None where there is none of that name."""
    if folder is None or name in ("", ".", "..") or "/" in name or "\0" in name:
        return None
    path = folder / name / SCRIPT
    try:
        return path if path.is_file() else None
    except OSError:  # a name that is too long, a folder that may not be entered
        return None


def agent_names(folder: Path | None) -> list[str]:
    """The agents of a folder; empty where it cannot be listed."""
    try:
        names = sorted(child.name for child in folder.iterdir()) if folder is not None else []
    except OSError:
        return []
    return [name for name in names if agent_script(name, folder) is not None]

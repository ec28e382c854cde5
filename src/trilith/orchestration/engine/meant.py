"""What a person may have meant who serves a folder in which there is no model."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Final

_SERVICE: Final = re.compile(rb"^\s*@(?:trilith\.)?service\b", re.MULTILINE)
_READ_BYTES: Final = 1 << 20


def what_was_meant(target: str) -> tuple[list[str], list[str]]:
    """Python files in the folder that declare a service, and folders in it that hold models; by name."""
    files: list[str] = []
    repositories: list[str] = []
    if "://" in target:
        return files, repositories
    with contextlib.suppress(OSError):  # what may not be read is nothing to name
        for path in sorted(Path(target).iterdir()):
            with contextlib.suppress(OSError):
                if path.suffix == ".py" and path.is_file() and _declares_service(path):
                    files.append(str(path))
                elif path.is_dir() and not path.name.startswith(".") and _holds_models(path):
                    repositories.append(str(path))
    return files, repositories


def _declares_service(path: Path) -> bool:
    with path.open("rb") as file:
        return _SERVICE.search(file.read(_READ_BYTES)) is not None


def _holds_models(folder: Path) -> bool:
    return any(version.name.isdecimal() and version.is_dir() for version in folder.glob("*/*"))

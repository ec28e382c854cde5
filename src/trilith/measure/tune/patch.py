"""Where a winner is written: changes of configuration files, shown before they are made. Doer.

Rule: what a person wrote stays: only the values of the winner change.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trilith.config import patched, path_steps
from trilith.errors import SetupError
from trilith.measure.tune.space import Configuration, Space, Value

SETTINGS_FILE: Final = "trilith.yaml"
_YAML: Final = "model.yaml"
_PBTXT: Final = "config.pbtxt"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file as it is and as it is to be.

    Attributes:
        path: where it lies.
        before: its text now; "" while there is none.
        after: its text then.
    """

    path: Path
    before: str
    after: str

    @property
    def diff(self) -> str:
        """The change, as a unified diff."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            str(self.path) if self.before else "/dev/null",
            str(self.path),
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Replaces the file whole.

        Raises:
            SetupError: it cannot be written.
        """
        try:
            number, temporary = tempfile.mkstemp(prefix=f".{self.path.name}-", dir=self.path.parent)
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(self.after)
            if self.path.exists():
                Path(temporary).chmod(self.path.stat().st_mode & 0o777)
            else:
                Path(temporary).chmod(0o644)
            Path(temporary).replace(self.path)
        except OSError as error:
            raise SetupError(f"{self.path}: cannot be written: {error.strerror}") from error


def changed_settings(space: Space, winner: Configuration) -> dict[str, Value]:
    """What the winner sets otherwise than it is now, by path."""
    found: dict[str, Value] = {}
    for knob, value, start in zip(space.knobs, winner, space.start, strict=True):
        if value != start or knob.current is None:
            found.update(dict.fromkeys(knob.paths, value))
    return found


def plan_changes(
    settings: Mapping[str, Value], *, settings_file: Path, repository: Path | None = None
) -> list[FileChange]:
    """The files that say so.

    Args:
        settings: values by path.
        settings_file: where settings of a server stand: that of `--config`, or `trilith.yaml` beside the application.
        repository: the folder of models that is tuned, whose `model.yaml` files are changed instead; None for a
            service. A model with a `config.pbtxt` keeps it, and its settings go to the settings' file.

    Raises:
        SetupError: a file cannot be read.
        InvalidConfig: a file has another shape, so that its values cannot be changed alone.
    """
    before: dict[Path, str] = {}
    after: dict[Path, str] = {}
    for path, value in settings.items():
        steps = path_steps(path)
        file = settings_file
        if repository is not None and steps[0] == "models" and not (repository / steps[1] / _PBTXT).exists():
            file, steps = repository / steps[1] / _YAML, steps[2:]
        if file not in before:
            before[file] = after[file] = _text(file)
        after[file] = patched(after[file], steps, value, source=str(file))
    return [
        FileChange(path=file, before=before[file], after=after[file]) for file in before if before[file] != after[file]
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: cannot be read: {error}") from error

"""`trilith init`: a small project to begin with.

Rule: nothing is overwritten. A template is a folder of `templates/`, whose files end in `.txt` here so that no tool
    takes them for Trilith's own. Its `requirements.txt` gets the place that Trilith was installed from.
"""

from __future__ import annotations

import importlib.resources
import shlex
import sys
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Literal

import trilith
from trilith.cli.init_requirement import installed_source, located
from trilith.errors import InvalidConfig

_SUFFIX: Final = ".txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What to do with a project. `served` is what `trilith serve` takes of `app.py`, `call` what one may call then."""

    served: str
    call: str


TEMPLATES: Final = {
    "function": Template(served="greet", call="greet name=Ann"),
    "class": Template(served="Library", call="Library/find title=Emma"),
    "pipeline": Template(served="Search", call="Search/closest query=seal texts=tooth texts=lease"),
    "ocr": Template(served="Ocr", call="Ocr/read image=@page.png"),
    "fastapi": Template(served="Library", call="Library/find title=Emma"),
    "from-grpc": Template(served="Words", call="Words/find_words text='a page of text'"),
}


def init(template: Literal["function", "class", "pipeline", "ocr", "fastapi", "from-grpc"], folder: Path, /) -> int:
    """Make a small project to begin with: a service, its test, and a page about it.

    Parameters
    ----------
    template
        `function`: six lines. `class`: state, types, errors. `pipeline`: services that call each other, with batches.
        `ocr`: reads the text on pictures, with real models. `fastapi`: an application of FastAPI in a service.
        `from-grpc`: a `.proto` served as it stands.
    folder
        Where to; it must not be there yet, or be empty.

    Returns
    -------
    int
        The exit status.
    """
    found = importlib.resources.files("trilith.cli").joinpath("templates", template)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InvalidConfig(f"{folder} is there already, and nothing is overwritten: name a new folder")
        written = _write(found, folder)
    except OSError as error:
        raise InvalidConfig(f"{folder} cannot be made: {error.strerror}") from error
    chosen = TEMPLATES[template]
    names = ", ".join(sorted(str(path.relative_to(folder)) for path in written))
    sys.stdout.write(
        f"made {folder}: {names}\n\nnext:\n"
        f"  trilith serve {shlex.quote(str(folder / 'app.py'))}:{chosen.served}\n"
        f"  trilith call {chosen.call}\n"
    )
    return 0


def _write(source: Traversable, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for entry in source.iterdir():
        if entry.is_dir():
            written += _write(entry, folder / entry.name)
        elif entry.name.endswith(_SUFFIX):
            path = folder / entry.name.removesuffix(_SUFFIX)
            if path.name == "requirements.txt":
                installed = installed_source(Path(trilith.__file__).resolve().parent)
                path.write_text(located(entry.read_text("utf-8"), installed), "utf-8")
            else:
                path.write_bytes(entry.read_bytes())
            written.append(path)
    return written

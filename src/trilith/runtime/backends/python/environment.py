"""A Python model's own packages: its `requirements.txt` becomes a virtual environment, made once.

    $TRILITH_CACHE/environments/HASH/      the environment; HASH is that of the requirements, of what they name on this
                                           machine (wheels, folders, other files) and of the interpreter
    $TRILITH_CACHE/environments/HASH.lock  held while it is made

Rule 1: an environment is complete or it is made anew: its last file is written last.
Rule 2: what makes it says that it gets on, and ends when nobody wants the model any more.
Rule 3: pip works with the user's own settings (index, proxies, offline folders).
Rule 4: what the model's environment lacks it finds in the server's, which comes after it: so the process finds Trilith,
    and a model's numpy is the model's.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import logging
import shutil
import site
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.python.installing import Installer
from trilith.runtime.backends.python.launch import Launch, plain_launch
from trilith.runtime.backends.python.packed import find_packed, packed_launch
from trilith.runtime.backends.python.requirements import named_in
from trilith.runtime.file_locks import Held, held_file
from trilith.runtime.sources.cache import cache_root

REQUIREMENTS: Final = "requirements.txt"
_COMPLETE: Final = "trilith-complete"
_REASON: Final = "ERROR: "
_RAW_SINCE: Final = (24, 1)
_log: Final = logging.getLogger("trilith.runtime")


def find_requirements(model_file: Path, *, is_script: bool = False) -> Path | None:
    """The requirements of a model: beside its file, or in its folder; of a backend's file beside it. None without."""
    for folder in (model_file.parent,) if is_script else (model_file.parent, model_file.parent.parent):
        if (folder / REQUIREMENTS).is_file():
            return folder / REQUIREMENTS
    return None


def interpreter_for(
    model: str, requirements: Path | None, root: Path | None = None, installer: Installer | None = None
) -> str:
    """The Python that runs a model with these requirements; the server's own when it has none.

    Slow the first time: it makes the environment, and logs a line before and after.

    Args:
        model: its name, for messages.
        requirements: its `requirements.txt`, or None.
        root: the folder of environments; by default below the user's cache.
        installer: runs what must be run; who has it may stop it.

    Raises:
        SetupError: the environment cannot be made; the message ends with what pip said. Or it was stopped.
    """
    if requirements is None:
        return sys.executable
    try:
        key = environment_key(requirements.read_bytes(), named_in(requirements))
    except OSError as error:
        raise SetupError(f"model '{model}': {requirements}: cannot be read: {error.strerror or error}") from error
    folder = (root or _folder_of_environments()) / key
    python = folder / "bin" / "python"
    if (folder / _COMPLETE).is_file():
        return str(python)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        installer = installer or Installer()
        with held_file(folder.with_name(f"{folder.name}.lock"), installer) as held:
            if not (folder / _COMPLETE).is_file():
                _make(model, requirements, folder, python, functools.partial(_run, installer, held))
    except OSError as error:
        raise SetupError(
            f"model '{model}': {requirements}: its environment {folder} cannot be made: {error.strerror or error}"
        ) from error
    return str(python)


def launch_for(
    file: ModelFile, path: Path, script: Path | None, installer: Installer, root: Path | None = None
) -> Launch:
    """How the processes of a model are started: in the environment that it brings, or in the server's.

    Args:
        file: the model.
        path: the file with its class.
        script: that file, where it is its backend's.
        installer: runs what must be run; who has it may stop it.
        root: the folder of environments; by default below the user's cache.

    Raises:
        SetupError: its environment cannot be made.
        InvalidConfig: it brings two, or names one that is not there.
    """
    packed, requirements = find_packed(file, script), find_requirements(path, is_script=script is not None)
    if packed is None:
        return plain_launch(interpreter_for(file.model, requirements, root, installer))
    if requirements is not None:
        raise InvalidConfig(f"model '{file.model}': has {packed} and {requirements}; keep one of them")
    return packed_launch(file.model, packed, installer, root or _folder_of_environments(), _server_paths())


def _folder_of_environments() -> Path:
    return cache_root().parent / "environments"


def environment_key(requirements: bytes, named: Iterable[tuple[str, str]] = ()) -> str:
    """The name of the environment for this interpreter and a file of that content; `named`: see `named_in`."""
    version = f"{sys.implementation.cache_tag} {sysconfig.get_platform()} {sys.prefix} {sys.base_prefix}"
    digest = hashlib.sha256(version.encode() + b"\0" + requirements)
    for what, content in named:
        digest.update(f"\0{what}\0{content}".encode(errors="surrogateescape"))
    return digest.hexdigest()[:24]


def _make(
    model: str, requirements: Path, folder: Path, python: Path, run: Callable[[str, Path, list[str]], None]
) -> None:
    _log.info("model '%s': making its environment from %s; this is done once", model, requirements)
    began_at = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    own_pip = importlib.util.find_spec("pip") is not None  # the server's pip saves a second copy, and some seconds
    pip = [sys.executable, "-m", "pip", "--python", str(python)] if own_pip else [str(python), "-m", "pip"]
    run(model, requirements, [sys.executable, "-m", "venv", *(["--without-pip"] if own_pip else []), str(folder)])
    options = ["--disable-pip-version-check", "--no-input", *(_telling_progress() if own_pip else ())]
    run(model, requirements, [*pip, "install", *options, "--requirement", str(requirements.resolve())])
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "trilith-server.pth").write_text("".join(f"{path}\n" for path in _server_paths()))
    (folder / _COMPLETE).write_text("")
    _log.info("model '%s': its environment is ready after %.1f s", model, time.monotonic() - began_at)


def _telling_progress() -> Sequence[str]:
    """The option by which the server's pip tells of a download piece by piece, if it has it: a large one takes long."""
    version = importlib.metadata.version("pip").split(".")
    known = all(part.isdecimal() for part in version[:2]) and (int(version[0]), int(version[1])) >= _RAW_SINCE
    return ("--progress-bar", "raw") if known else ()


def _run(installer: Installer, held: Held, model: str, requirements: Path, command: list[str]) -> None:
    code, said = installer.run(command, requirements.resolve().parent, held.heard)
    if code:
        lines = said.splitlines()
        reason = next((line.removeprefix(_REASON) for line in reversed(lines) if line.startswith(_REASON)), "")
        step = "pip could not install what it lists" if "pip" in command else "no virtual environment could be made"
        raise SetupError(
            f"model '{model}': {requirements}: {step}{reason and f' ({reason})'}; without a network, name a folder of "
            "wheels in it (--no-index, --find-links); its last words were:\n" + "\n".join(lines)
        )


def _server_paths() -> list[str]:
    """Where the server finds Trilith and its own packages, in its own order."""
    own = Path(__file__).resolve().parents[4]
    places = [str(own), *site.getsitepackages(), *(path for path in sys.path if path.endswith("site-packages"))]
    return list(dict.fromkeys(path for path in places if Path(path).is_dir()))

"""A packed Python environment of a model (`EXECUTION_ENV_PATH`), as conda-pack and venv-pack make them, or its folder.

    $TRILITH_CACHE/environments/packed-HASH/environment       what was unpacked; HASH is that of the file
    $TRILITH_CACHE/environments/packed-HASH/trilith-complete  written last
    $TRILITH_CACHE/environments/packed-HASH.lock              held while it is unpacked

Rule 1: the environment must be of the server's Python (3.11 for 3.11): a model's process runs Trilith too, whose
    packages with native code come from the server's. Any other is refused in words.
Rule 2: what the environment has goes before what the server has, so a model's numpy is the model's.
Rule 3: nothing is written into an environment that is not our own copy; none is activated by its scripts, whose effects
    are set here: PATH, LD_LIBRARY_PATH, CONDA_PREFIX or VIRTUAL_ENV.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.python.installing import Installer
from trilith.runtime.backends.python.launch import Launch, launch_with
from trilith.runtime.backends.python.requirements import digest_of_file
from trilith.runtime.backends.python.unpacking import unpack
from trilith.runtime.file_locks import held_file

PARAMETER: Final = "EXECUTION_ENV_PATH"
BESIDE_SCRIPT: Final = "pb_exec_env_{}.tar.gz"
"""Beside the `model.py` of a backend: the environment of every model of it that names none."""
_MODEL_FOLDER: Final = "$$TRITON_MODEL_DIRECTORY"
_COMPLETE: Final = "trilith-complete"
_TELL_VERSION: Final = "import sys; print(sys.implementation.cache_tag)"
_log: Final = logging.getLogger("trilith.runtime")


def find_packed(file: ModelFile, script: Path | None) -> Path | None:
    """The environment that a configuration names, or that lies beside the backend's script; None where there is none.

    Raises:
        InvalidConfig: the one that it names is not there.
    """
    said = file.spec.parameters.get(PARAMETER, "")
    if not said:
        beside = script.with_name(BESIDE_SCRIPT.format(script.name)) if script is not None else None
        return beside if beside is not None and beside.is_file() else None
    path = Path(said.replace(_MODEL_FOLDER, str(file.folder or Path())))
    if not path.exists():
        raise InvalidConfig(
            f"model '{file.model}': parameters.{PARAMETER}: there is no {path}; expected an environment that "
            f"conda-pack or venv-pack has packed, or its folder ({_MODEL_FOLDER} is that of the model)"
        )
    return path


def packed_launch(model: str, path: Path, installer: Installer, root: Path, servers: Sequence[str]) -> Launch:
    """How processes are started in an environment. Slow the first time: it is unpacked, and that is logged.

    Args:
        model: the model's name, for messages.
        path: the packed environment, or its folder.
        installer: runs what must be run; who has it may stop it.
        root: the folder of environments.
        servers: folders of the server's packages.

    Raises:
        SetupError: it cannot be unpacked, or is of another Python. Or it was stopped.
    """
    try:
        folder = path.resolve() if path.is_dir() else _unpacked(model, path, installer, root)
        return _launch(model, path, folder, installer, servers)
    except OSError as error:
        raise SetupError(
            f"model '{model}': {path}: this environment cannot be used: {error.strerror or error}"
        ) from error


def _unpacked(model: str, path: Path, installer: Installer, root: Path) -> Path:
    installer.heard()
    folder = root / f"packed-{digest_of_file(path)[:24]}"
    environment = folder / "environment"
    if (folder / _COMPLETE).is_file():
        return environment
    root.mkdir(parents=True, exist_ok=True)
    with held_file(folder.with_name(f"{folder.name}.lock"), installer) as held:
        if not (folder / _COMPLETE).is_file():
            _log.info("model '%s': unpacking its environment %s; this is done once", model, path)
            began_at = time.monotonic()
            shutil.rmtree(folder, ignore_errors=True)
            environment.mkdir(parents=True)
            try:
                unpack(path, environment, held.heard)
                (folder / _COMPLETE).write_text("")
            except BaseException as error:
                shutil.rmtree(folder, ignore_errors=True)
                if isinstance(error, SetupError):
                    raise SetupError(f"model '{model}': {error.message}") from error
                raise
            _log.info("model '%s': its environment is ready after %.1f s", model, time.monotonic() - began_at)
    return environment


def _launch(model: str, path: Path, folder: Path, installer: Installer, servers: Sequence[str]) -> Launch:
    python = folder / "bin" / "python"
    if os.access(python, os.X_OK):
        code, said = installer.run([str(python), "-I", "-c", _TELL_VERSION], folder, installer.heard)
        if code:
            raise SetupError(
                f"model '{model}': {path}: its bin/python cannot be run here: {said or f'exit code {code}'}"
            )
        if (tag := said.rpartition("\n")[2]) != sys.implementation.cache_tag:
            raise _of_another(model, path, tag)
        return launch_with(str(python), servers, variables=_activated(folder))
    # One of a venv is a link into the Python that it was made with, which may not be here. Its packages are.
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    if packages.is_dir():
        return launch_with(
            sys.executable, servers, own=[str(packages)], bare=True, variables={"PATH": _path_with(folder)}
        )
    found = sorted(child.name for child in folder.glob("lib/python*"))
    raise _of_another(model, path, ", ".join(found) or "neither bin/python nor lib/pythonX.Y")


def _of_another(model: str, path: Path, found: str) -> SetupError:
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return SetupError(
        f"model '{model}': {path}: expected an environment of the server's Python, {here} "
        f"({sys.implementation.cache_tag}), found {found}. A model's process runs Trilith too: pack an environment of "
        f"Python {here}, run the server with the other Python, or put a requirements.txt beside the model"
    )


def _activated(folder: Path) -> dict[str, str]:
    libraries = os.environ.get("LD_LIBRARY_PATH", "")
    variables = {
        "PATH": _path_with(folder),
        "LD_LIBRARY_PATH": f"{folder / 'lib'}{os.pathsep}{libraries}" if libraries else str(folder / "lib"),
        "PYTHONNOUSERSITE": "1",  # packages of the server's user would go before those of the environment
    }
    if (folder / "conda-meta").is_dir():
        variables["CONDA_PREFIX"] = str(folder)
    elif (folder / "pyvenv.cfg").is_file():
        variables["VIRTUAL_ENV"] = str(folder)
    return variables


def _path_with(folder: Path) -> str:
    return f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

"""Times the steps of a workflow on a copy of the target's folder. Doer.

Rule 1: nothing of the user's is changed: the folder is copied (large files are linked); the copy is edited and served.
Rule 2: a step that cannot be done is left out with its reason; the others are timed all the same.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.copies import CopyPlan, RunningCopy, running_copy
from trilith.measure.diagnose.collect import Progress
from trilith.measure.diagnose.workflow import EDIT, INSTALL, START, Step, Workflow, slow_imports
from trilith.measure.load import Target
from trilith.measure.load.probe import probe
from trilith.measure.process_tree import process_tree
from trilith.measure.units import duration

_LINKED_BYTES: Final = 1 << 20
_LEFT_OUT: Final = (".git", ".venv", "venv", "__pycache__", "node_modules", "*.pyc")
_WITHIN_S: Final = 600.0
_RELOADED_WITHIN_S: Final = 120.0
_LOOK_S: Final = 0.02
_WORKER: Final = b"trilith.orchestration.engine.worker"
_IMPORTS: Final = """
import importlib.util, sys
sys.path.insert(0, sys.argv[2])
specification = importlib.util.spec_from_file_location("timed_target", sys.argv[1])
module = importlib.util.module_from_spec(specification)
sys.modules["timed_target"] = module
specification.loader.exec_module(module)
"""


def time_workflow(target: str, *, on_progress: Progress | None = None) -> Workflow:
    """Times install, start and edit of `app.py:Name`.

    Raises:
        InvalidConfig: the target is no file of Python.
    """
    tell = on_progress or (lambda _: None)
    path = Path(target.partition(":")[0])
    if path.suffix != ".py" or not path.is_file():
        raise InvalidConfig(f"--workflow times the way of an edit: expected a file as app.py:Name, got {target!r}")
    with _copied(path.resolve().parent) as folder:
        tell("installing")
        steps = [_install(path.resolve().parent)]
        copied = f"{path.name}{target[len(str(path)) :]}"
        tell("starting a copy")
        steps.append(_start(folder, copied, path.name))
        tell("editing a copy")
        steps.append(_edit(folder, copied, path.name))
    return Workflow(target=target, steps=tuple(steps))


@contextlib.contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    def copy(source: str, target: str) -> str:
        if os.stat(source).st_size > _LINKED_BYTES:  # noqa: PTH116  it gets and gives text
            os.symlink(source, target)  # noqa: PTH211
            return target
        return shutil.copy2(source, target)

    with tempfile.TemporaryDirectory(prefix="trilith-workflow-") as name:
        place = Path(name) / folder.name
        shutil.copytree(folder, place, ignore=shutil.ignore_patterns(*_LEFT_OUT), copy_function=copy)
        yield place


def _install(folder: Path) -> Step:
    """A fresh environment with what `requirements.txt` asks for."""
    wanted = folder / "requirements.txt"
    if not wanted.is_file():
        return Step(name=INSTALL, seconds=None, note="there is no requirements.txt beside the file")
    with tempfile.TemporaryDirectory(prefix="trilith-install-") as place:
        began = time.perf_counter()
        try:
            subprocess.run([sys.executable, "-m", "venv", place], check=True, capture_output=True, timeout=_WITHIN_S)
            made_s = time.perf_counter() - began
            pip = [
                str(Path(place) / "bin" / "python"),
                "-m",
                "pip",
                "--disable-pip-version-check",
                "install",
                "--quiet",
            ]
            subprocess.run([*pip, "-r", str(wanted)], check=True, capture_output=True, timeout=_WITHIN_S, cwd=folder)
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
            return Step(name=INSTALL, seconds=None, note=f"it failed: {said[-1]}")
        except subprocess.TimeoutExpired:
            return Step(name=INSTALL, seconds=None, note=f"it took longer than {_WITHIN_S:g} s")
        whole_s = time.perf_counter() - began
    note = f"the environment {duration(made_s)}, its packages {duration(whole_s - made_s)}"
    return Step(name=INSTALL, seconds=whole_s, note=note)


def _start(folder: Path, target: str, file: str) -> Step:
    try:
        with running_copy(CopyPlan(target=target, folder=folder)) as copy:
            seconds = copy.ready_s
    except SetupError as error:
        return Step(name=START, seconds=None, note=str(error))
    imports = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _IMPORTS, file, str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    slow = ", ".join(f"{name} {duration(taken)}" for name, taken in slow_imports(imports.stderr))
    return Step(name=START, seconds=seconds, note=f"slowest imports: {slow}" if slow else "")


def _edit(folder: Path, target: str, file: str) -> Step:
    """From the write of a changed file until all replicas are new ones and answer."""
    try:
        with running_copy(CopyPlan(target=target, folder=folder, options=("--reload",))) as copy:
            old = _replicas(copy)
            if not old:
                return Step(name=EDIT, seconds=None, note="its replicas could not be seen")
            with (folder / file).open("a", encoding="utf-8") as source:
                source.write("\n# edited\n")
            began = time.perf_counter()
            while time.perf_counter() - began < _RELOADED_WITHIN_S:
                if not old & {sample.pid for sample in process_tree(copy.pid)} and _is_ready(copy):
                    return Step(name=EDIT, seconds=time.perf_counter() - began, note="with --reload, one file changed")
                time.sleep(_LOOK_S)
    except SetupError as error:
        return Step(name=EDIT, seconds=None, note=str(error))
    return Step(name=EDIT, seconds=None, note=f"no new replica within {_RELOADED_WITHIN_S:g} s of the edit")


def _replicas(copy: RunningCopy) -> set[int]:
    """The processes that serve now, while no change has been made: later ones may come from the reserve."""
    found = set()
    for sample in process_tree(copy.pid):
        with contextlib.suppress(OSError):
            if _WORKER in (Path("/proc") / str(sample.pid) / "cmdline").read_bytes().split(b"\0"):
                found.add(sample.pid)
    return found


def _is_ready(copy: RunningCopy) -> bool:
    try:
        return probe(Target.parse(copy.url("/readyz")), "GET", None, timeout_s=5.0).status == 200
    except SetupError:
        return False

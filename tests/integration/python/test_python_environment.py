"""A model's own packages, made without a network from a folder of wheels."""

import asyncio
import threading
import zipfile
from pathlib import Path

import pytest
from python_models import ask, echo_with, write_model
from waiting import until

from trilith.errors import Conflict, SetupError
from trilith.runtime import ControlMode, Runtime, RuntimeConfig
from trilith.runtime.backends.python.environment import interpreter_for
from trilith.runtime.backends.python.installing import Installer


def write_wheel(folder, name, version, source):
    """A wheel of one module."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", source)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


OFFLINE = "--no-index\n--find-links ./wheels\n"


def test_two_models_have_two_versions_of_one_package(repository, run, caplog):
    body = "import tripled\nreturn x * tripled.FACTOR"
    for name, version, factor in (("first", "1.0", 3), ("second", "2.0", 30)):
        folder = write_model(
            repository, name, echo_with(run=body), files={"requirements.txt": f"{OFFLINE}tripled=={version}\n"}
        )
        write_wheel(folder / "wheels", "tripled", version, f"FACTOR = {factor}\n")

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[3]]
            assert (await runtime.infer(ask("second", 1))).outputs["y"].tolist() == [[30]]
            made = [record.message for record in caplog.records if "making its environment" in record.message]
            assert len(made) == 2
            caplog.clear()
            (repository / "first" / "wheels" / "tripled-1.0-py3-none-any.whl").touch()
            await runtime.load("first")  # from the cache: nothing is installed
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[3]]
            assert not [record for record in caplog.records if "environment" in record.message]

    with caplog.at_level("INFO", "trilith.runtime"):
        run(main())


def test_models_of_the_same_lines_have_each_their_own_wheel_also_when_it_is_built_anew(repository, run):
    body = "import tripled\nreturn x * tripled.FACTOR"
    folders = {}
    for name, factor in (("first", 3), ("second", 30)):
        lines = "--no-index\n./wheels/tripled-1.0-py3-none-any.whl\n"
        folders[name] = write_model(repository, name, echo_with(run=body), files={"requirements.txt": lines})
        write_wheel(folders[name] / "wheels", "tripled", "1.0", f"FACTOR = {factor}\n")

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[3]]
            assert (await runtime.infer(ask("second", 1))).outputs["y"].tolist() == [[30]]
            write_wheel(folders["first"] / "wheels", "tripled", "1.0", "FACTOR = 300\n")
            (folders["first"] / "1" / "model.py").touch()
            await runtime.load("first")
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[300]]

    run(main())


BUILD = """
import os, time
def build_wheel(*arguments, **more):
    open({witness!r}, "w").write(str(os.getpid()))
    time.sleep(600)
"""


def test_an_installation_that_nobody_wants_any_more_is_ended(repository, run, tmp_path):
    witness = tmp_path / "pid"
    folder = write_model(repository, "builds", echo_with(), files={"requirements.txt": "--no-index\n./slow\n"})
    (folder / "slow").mkdir()
    project = '[build-system]\nrequires = []\nbuild-backend = "hangs"\nbackend-path = ["."]\n'
    (folder / "slow" / "pyproject.toml").write_text(f'{project}[project]\nname = "slow"\nversion = "1"\n')
    (folder / "slow" / "hangs.py").write_text(BUILD.format(witness=str(witness)))

    async def main():
        async with Runtime(repository, config=RuntimeConfig(mode=ControlMode.EXPLICIT)) as runtime:
            load = asyncio.ensure_future(runtime.load("builds"))
            await until(lambda: witness.exists() and witness.read_text())
            again = asyncio.ensure_future(asyncio.to_thread(waits, folder))
            await runtime.unload("builds")
            with pytest.raises(Conflict, match="unloaded while it was loading"):
                await load
            await until(lambda: ended(witness.read_text()))
            await until(lambda: runtime.load_statistics().left_behind == 0)
            await again

    def ended(pid):
        try:  # nobody may have reaped it yet
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def waits(folder):
        """Another process that needs the same environment; nobody wants it any more, either."""
        installer = Installer()
        threading.Timer(0.3, installer.stop, ["nobody wants it"]).start()
        with pytest.raises(SetupError, match="nobody wants it"):
            interpreter_for("other", folder / "requirements.txt", installer=installer)

    run(main())


def test_what_cannot_be_installed_is_one_clear_error(repository, run):
    write_model(repository, "lost", echo_with(), files={"requirements.txt": f"{OFFLINE}nowhere-to-be-found\n"})

    async def main():
        async with Runtime(repository) as runtime:
            reason = runtime.model("lost").reason
            assert "pip could not install what it lists" in reason
            assert "nowhere-to-be-found" in reason
            [entry] = await runtime.repository.index(ready_only=False)
            assert "(No matching distribution found for nowhere-to-be-found); without a network" in entry["reason"]
            assert entry["reason"].endswith("--find-links)")

    run(main())


def test_an_environment_that_was_not_finished_is_made_anew(tmp_path):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("--no-index\nnowhere-to-be-found\n")
    for _ in range(2):
        with pytest.raises(SetupError, match="pip could not install"):
            interpreter_for("m", requirements, tmp_path / "environments")
    requirements.write_text("# nothing\n")
    assert interpreter_for("m", requirements, tmp_path / "environments").endswith("/bin/python")


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("")
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot be made"):
        interpreter_for("m", requirements, tmp_path / "file" / "environments")

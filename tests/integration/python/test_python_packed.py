"""`EXECUTION_ENV_PATH`: environments that are packed as venv-pack and conda-pack do, and what may be wrong with one."""

import sys
import tarfile
import threading
import venv

import pytest
from python_models import HEAD, ask, echo_with, write_model

from trilith.errors import SetupError
from trilith.runtime import Runtime, RuntimeConfig, check_models
from trilith.runtime.backends.python.installing import Installer
from trilith.runtime.backends.python.packed import packed_launch

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PBTXT = """
backend: "python"
parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{}" }} }}
"""
RUN = """
import shutil, tripled
assert sys.prefix != sys.base_prefix or "{kind}" == "bare"
assert ("environment" in os.environ["PATH"].split(os.pathsep)[0]) and shutil.which("greet")
return x * tripled.FACTOR
"""


def make_environment(folder, factor):
    """An environment as `python -m venv` makes it, with a package and a program."""
    venv.create(folder, with_pip=False, symlinks=True)
    (folder / "lib" / VERSION / "site-packages" / "tripled.py").write_text(f"FACTOR = {factor}\n")
    (folder / "bin" / "greet").write_text("#!/bin/sh\necho hello\n")
    (folder / "bin" / "greet").chmod(0o755)
    return folder


def pack(folder, path):
    """As venv-pack: what is in the folder, at the root of the archive."""
    with tarfile.open(path, "w:gz") as tar:
        for child in sorted(folder.iterdir()):
            tar.add(child, child.name)
    return path


def test_two_models_have_two_packed_environments(repository, run, tmp_path, caplog):
    for name, factor in (("first", 3), ("second", 30)):
        environment = make_environment(tmp_path / name, factor)
        if name == "second":  # as it is on a machine that has no such Python
            for link in environment.glob("bin/python*"):
                link.unlink()
            (environment / "bin" / "python").symlink_to("/nowhere/python3")
        kind = "bare" if name == "second" else "own"
        pbtxt = PBTXT.format("$$TRITON_MODEL_DIRECTORY/env.tar.gz")
        folder = write_model(repository, name, echo_with(run=RUN.format(kind=kind)), pbtxt=pbtxt)
        pack(environment, folder / "env.tar.gz")

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[3]]
            assert (await runtime.infer(ask("second", 1))).outputs["y"].tolist() == [[30]]
            made = [record.message for record in caplog.records if "unpacking its environment" in record.message]
            assert len(made) == 2
            caplog.clear()
            (repository / "first" / "env.tar.gz").touch()
            await runtime.load("first")
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[3]]
            assert not [record for record in caplog.records if "environment" in record.message], "it is there already"
            pack(make_environment(tmp_path / "anew", 300), repository / "first" / "env.tar.gz")
            await runtime.load("first")
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[300]]

    with caplog.at_level("INFO", "trilith.runtime"):
        run(main())


def test_a_folder_is_an_environment_too_and_stays_as_it_is(repository, run, tmp_path):
    environment = make_environment(tmp_path / "environment", 3)
    before = sorted(environment.rglob("*"))
    write_model(
        repository, "first", echo_with(run="import tripled\nreturn x * tripled.FACTOR"), pbtxt=PBTXT.format(environment)
    )

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(ask("first", 1))).outputs["y"].tolist() == [[3]]

    run(main())
    assert [path for path in sorted(environment.rglob("*")) if "__pycache__" not in path.parts] == before


def test_an_environment_beside_a_backend_is_that_of_its_models(repository, run, tmp_path):
    backend = tmp_path / "backends" / "scaled"
    backend.mkdir(parents=True)
    (backend / "model.py").write_text(echo_with(run="import tripled\nreturn x * tripled.FACTOR"))
    pack(make_environment(tmp_path / "environment", 5), backend / "pb_exec_env_model.py.tar.gz")
    (backend.parent / "requirements.txt").write_text("of-nobody\n")
    for name in ("first", "second"):
        (repository / name).mkdir()
        (repository / name / "config.pbtxt").write_text('backend: "scaled"')

    async def main():
        async with Runtime(repository, config=RuntimeConfig(backend_directory=str(backend.parent))) as runtime:
            for name in ("first", "second"):
                assert (await runtime.infer(ask(name, 1))).outputs["y"].tolist() == [[5]]

    run(main())


def launch(path, root, installer=None):
    return packed_launch("m", path, installer or Installer(), root, [])


def test_an_environment_of_another_python_is_refused_in_words(tmp_path):
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    python = environment / "bin" / "python"
    python.write_text("#!/bin/sh\necho cpython-36\n")
    python.chmod(0o755)
    with pytest.raises(SetupError, match=r"expected an environment of the server's Python.*found cpython-36"):
        launch(environment, tmp_path)
    python.write_text("#!/bin/sh\necho no such machine >&2\nexit 3\n")
    with pytest.raises(SetupError, match="its bin/python cannot be run here: no such machine"):
        launch(environment, tmp_path)
    python.write_bytes(b"\x7fELF of another machine")
    with pytest.raises(SetupError, match="this environment cannot be used: Exec format error"):
        launch(environment, tmp_path)
    python.unlink()
    (environment / "lib" / "python3.6").mkdir(parents=True)
    with pytest.raises(SetupError, match=r"found python3\.6"):
        launch(environment, tmp_path)
    (environment / "lib" / "python3.6").rmdir()
    with pytest.raises(SetupError, match=r"found neither bin/python nor lib/pythonX\.Y"):
        launch(environment, tmp_path)


def test_what_is_no_environment_is_one_clear_error_and_leaves_nothing(tmp_path):
    (tmp_path / "env.tar.gz").write_text("no archive")
    root = tmp_path / "environments"
    for _ in range(2):
        with pytest.raises(SetupError, match=r"model 'm': .*env.tar.gz: is no tar file that can be read"):
            launch(tmp_path / "env.tar.gz", root)
    assert not [child for child in root.iterdir() if child.is_dir()]
    with pytest.raises(SetupError, match="this environment cannot be used: Not a directory"):
        launch(tmp_path / "env.tar.gz", tmp_path / "env.tar.gz" / "below")


def test_an_unpacking_that_nobody_wants_is_ended(tmp_path):
    archive = pack(make_environment(tmp_path / "environment", 1), tmp_path / "env.tar.gz")
    installer = Installer()
    installer.on_heard = lambda: installer.stop("nobody wants it")
    with pytest.raises(SetupError, match="nobody wants it"):
        launch(archive, tmp_path / "root", installer)
    assert launch(archive, tmp_path / "root").command[0].endswith("/environment/bin/python")


def test_two_that_need_it_unpack_it_once(tmp_path, caplog):
    archive = pack(make_environment(tmp_path / "environment", 1), tmp_path / "env.tar.gz")
    with caplog.at_level("INFO", "trilith.runtime"):
        threads = [threading.Thread(target=launch, args=(archive, tmp_path / "root")) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len([record for record in caplog.records if "unpacking its environment" in record.message]) == 1


def test_check_says_that_it_is_not_there_or_that_there_are_two(repository, run):
    folder = write_model(
        repository, "first", HEAD + "class TritonPythonModel: ...", pbtxt=PBTXT.format("$$TRITON_MODEL_DIRECTORY/e.tgz")
    )
    (found,) = check_models(repository)
    assert f"parameters.EXECUTION_ENV_PATH: there is no {folder / 'e.tgz'}; expected" in found.problem
    (folder / "e.tgz").write_text("")
    assert check_models(repository)[0].ok
    (folder / "requirements.txt").write_text("")

    async def main():
        async with Runtime(repository) as runtime:
            assert "keep one of them" in runtime.model("first").reason

    run(main())

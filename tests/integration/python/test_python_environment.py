"""A model's own packages, made without a network from a folder of wheels."""

import zipfile

import pytest
from python_models import ask, echo_with, write_model

from trilith.errors import SetupError
from trilith.runtime import Runtime
from trilith.runtime.backends.python.environment import interpreter_for


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

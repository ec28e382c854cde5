"""Repository agents of a model that is loaded, loaded again and unloaded."""

import asyncio
import hashlib
import logging
from pathlib import Path

import numpy as np
import pytest
from waiting import until

from trilith.core.load_options import ControlMode
from trilith.core.request import InferRequest
from trilith.errors import SetupError
from trilith.runtime import Runtime, RuntimeConfig
from trilith.testing.backends import EchoBackend, kind_of

AGENT = """
import pathlib, shutil, tempfile

NOTES = pathlib.Path(__file__).with_name("notes")

class RepositoryAgent:
    def load(self, model):
        print("looking at", model.name)
        if (model.folder / "1" / "model.twin").read_text() == "refused":
            raise PermissionError("not this one")
        aside = pathlib.Path(tempfile.mkdtemp(dir=NOTES.parent)) / model.name
        shutil.copytree(model.folder, aside)
        (aside / "1" / "model.twin").write_text("opened " + (aside / "1" / "model.twin").read_text())
        self.note("load", model)
        return aside

    def unload(self, model):
        self.note("unload", model)
        shutil.rmtree(model.folder)

    def note(self, what, model):
        with NOTES.open("a") as notes:
            notes.write(f"{what} {model.name} {model.parameters['key']}\\n")
"""
CONFIG = 'backend: "files" model_repository_agents { agents [ %s ] }'
OWN = '{ name: "own" parameters { key: "key" value: "v" } }'


@pytest.fixture
def read():
    """What the backends of a test read, in order."""
    return []


@pytest.fixture
def serve(repository, tmp_path, read):
    class Files(EchoBackend):
        def __init__(self, file):
            super().__init__()
            self.file = file

        def load(self):
            read.append(self.file.path.read_text())
            return super().load()

    (tmp_path / "agents" / "own").mkdir(parents=True)
    (tmp_path / "agents" / "own" / "agent.py").write_text(AGENT)
    (repository / "m" / "1").mkdir(parents=True)

    def serve_it():
        return Runtime(
            repository,
            config=RuntimeConfig(
                backends={"files": kind_of(Files, filename="model.twin")},
                mode=ControlMode.EXPLICIT,
                repoagent_directory=str(tmp_path / "agents"),
            ),
        )

    return serve_it


def write(repository, content, agents=OWN):
    (repository / "m" / "1" / "model.twin").write_text(content)
    (repository / "m" / "config.pbtxt").write_text(CONFIG % agents)


def test_an_agent_makes_the_files_that_are_loaded_and_is_told_of_the_end(serve, repository, tmp_path, read, run):
    notes = tmp_path / "agents" / "own" / "notes"

    def copies():
        return list((tmp_path / "agents" / "own").rglob("model.twin"))

    async def main():
        async with serve() as runtime:
            write(repository, "first")
            await runtime.repository.load("m", {})
            write(repository, "refused")
            with pytest.raises(SetupError, match=r"PermissionError: not this one \(repository agent 'own'\)"):
                await runtime.repository.load("m", {})
            await runtime.infer(InferRequest(model="m", inputs={"x": np.ones((1, 2), np.float32)}))
            assert len(copies()) == 1
            write(repository, "second")
            await runtime.repository.load("m", {})
            assert len(copies()) == 1
            await runtime.repository.unload("m")
            assert copies() == []
            assert runtime.model("m").config_proto().model_repository_agents.agents[0].name == "own"
            await runtime.repository.load("m", {})
        assert copies() == []

    run(main())
    assert read == ["opened first", "opened second", "opened second"]
    assert notes.read_text() == "load m v\nload m v\nunload m v\nunload m v\nload m v\nunload m v\n"


def test_what_an_agent_has_made_goes_when_the_load_fails(serve, repository, tmp_path, run, caplog):
    async def main():
        async with serve() as runtime:
            write(
                repository, "content", OWN + ', { name: "checksum" parameters { key: "MD5:1/model.twin" value: "x" } }'
            )
            with pytest.raises(SetupError, match=r"Mismatched MD5 hash for file 1/model.twin, expected x, got"):
                await runtime.repository.load("m", {})
            digest = hashlib.md5(b"opened content", usedforsecurity=False).hexdigest()
            fits = f'{{ name: "checksum" parameters {{ key: "MD5:1/model.twin" value: "{digest}" }} }}'
            write(repository, "content", f"{OWN}, {fits}")  # it sees what the one before it has made
            await runtime.repository.load("m", {})
            write(repository, "content", '{ name: "nobody" }')
            with pytest.raises(SetupError, match="there is no repository agent 'nobody'"):
                await runtime.repository.load("m", {})
            assert runtime.model("m").ready
            (tmp_path / "agents" / "own" / "agent.py").write_text("import os\nos._exit(7)")
            write(repository, "content")
            with pytest.raises(SetupError, match="its process ended with status 7"):
                await runtime.repository.load("m", {})

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "repository agent 'own' was not told of the unload: its process ended with status 7" in caplog.text


def test_one_that_hangs_is_ended_when_nobody_wants_the_load(serve, repository, tmp_path, run):
    agent = tmp_path / "agents" / "own" / "agent.py"
    begun = tmp_path / "begun"
    agent.write_text(
        f"import os, pathlib, time\npathlib.Path({str(begun)!r}).write_text(str(os.getpid()))\ntime.sleep(3600)\n"
    )
    write(repository, "content")

    async def main():
        async with serve() as runtime:
            loading = asyncio.ensure_future(runtime.repository.load("m", {}))
            await until(lambda: begun.exists() and begun.read_text())
            await runtime.repository.unload("m")
            with pytest.raises(Exception, match="it was unloaded while it was loading"):
                await loading
            process = Path("/proc", begun.read_text())
            await until(lambda: not process.exists())

    run(main())

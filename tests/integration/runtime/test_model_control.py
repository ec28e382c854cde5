"""Who decides what is loaded: nobody, the files, or clients. With twins instead of models."""

import asyncio
import json
import logging
import os

import numpy as np
import pytest

from trilith.core.load_options import ControlMode
from trilith.core.request import InferRequest
from trilith.errors import InvalidInput, SetupError, UnknownModel, UnknownReference, Unsupported
from trilith.runtime import ModelState, Runtime, RuntimeConfig, keeper
from trilith.testing.backends import EchoBackend, kind_of

FOREVER_S = 3600.0


class Files(EchoBackend):
    """Can be loaded unless its file says `broken`; notes what it was made of."""

    def __init__(self, file, made):
        super().__init__()
        self.file = file
        made.append(self)

    def load(self):
        if self.file.path.read_text() == "broken":
            raise ValueError("the file is broken")
        return super().load()


@pytest.fixture
def made():
    return []


@pytest.fixture
def serve(made):
    def serve_it(*roots, **config):
        kind = kind_of(lambda file: Files(file, made), filename="model.twin")
        return Runtime(*roots, config=RuntimeConfig(backends={"files": kind}, poll_s=FOREVER_S, **config))

    return serve_it


def write(root, name, version=1, content="fine", yaml=""):
    path = root / name / str(version) / "model.twin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    if yaml:
        (root / name / "model.yaml").write_text(yaml)
    return path


def request(model, **fields):
    return InferRequest(model=model, inputs={"x": np.ones((1, 2), np.float32)}, **fields)


def index(entries):
    return {(entry["name"], entry.get("version")): entry.get("state") for entry in entries}


def test_polling_follows_the_files(repository, serve, run, made, caplog):
    write(repository, "a")
    path = write(repository, "b", yaml="versions: all")

    async def main():
        async with serve(repository, mode=ControlMode.POLL) as runtime:
            poll = runtime.repository.poll
            await poll()
            assert len(made) == 2
            write(repository, "c", content="broken")
            write(repository, "b", version=2)
            await poll()
            assert len(made) == 4
            assert runtime.model("b").versions == ("1", "2")
            assert runtime.model("c").state is ModelState.UNAVAILABLE
            assert runtime.ready  # what was there at the start is
            await poll()
            assert len(made) == 4  # what failed is tried again when it has changed, and not before
            write(repository, "c")
            path.write_text("broken")
            await poll()
            assert runtime.model("c").ready
            assert runtime.model("b", "1").ready  # the old one serves on
            await runtime.infer(request("b", version="1"))
            path.write_text("mended")
            (repository / "b" / "2" / "model.twin").unlink()
            (repository / "b" / "2").rmdir()
            await poll()
            assert runtime.model("b").versions == ("1",)
            with pytest.raises(UnknownModel):
                await runtime.infer(request("b", version="2"))
            repository.rename(repository.with_name("away"))
            await poll()  # that the disk is away unloads nothing
            await runtime.infer(request("a"))
            repository.with_name("away").rename(repository)
            (repository / "a" / "1" / "model.twin").unlink()
            (repository / "a" / "1").rmdir()
            (repository / "a").rmdir()
            await poll()
            assert runtime.model("a").reason == "unloaded"
            assert runtime.ready

    caplog.set_level(logging.ERROR)
    run(main())
    assert "cannot be listed" in caplog.text
    assert all(model.closed == 1 for model in made)


def test_polling_by_itself(repository, run, made):
    write(repository, "a")
    kind = kind_of(lambda file: Files(file, made), filename="model.twin")

    async def main():
        config = RuntimeConfig(backends={"files": kind}, mode=ControlMode.POLL, poll_s=0.01)
        async with Runtime(repository, config=config) as runtime:
            write(repository, "b")
            while not any(model.name == "b" and model.ready for model in runtime.models()):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    run(main())


def test_polling_outlives_names_and_files_that_nobody_can_read(repository, serve, run, caplog):
    write(repository, "a")

    async def main():
        async with serve(repository, mode=ControlMode.POLL) as runtime:
            poll = runtime.repository.poll
            (repository / os.fsdecode(b"b\xff")).mkdir()
            (repository / "a" / os.fsdecode(b"f\xff")).touch()
            write(repository, "deep", yaml="[" * 5000)
            write(repository, "odd").unlink()
            (repository / "odd" / "1").rmdir()
            (repository / "odd").rmdir()
            (repository / "odd").write_text("a file now")
            await poll()
            assert runtime.model("deep").state is ModelState.UNAVAILABLE
            assert "nested too deeply" in runtime.model("deep").reason
            assert {model.name for model in runtime.models()} == {"a", "deep"}
            write(repository, "later")
            await poll()
            assert runtime.model("later").ready

    run(main())


@pytest.mark.parametrize("mode", [ControlMode.NONE, ControlMode.POLL])
def test_clients_decide_only_in_explicit_mode(repository, serve, run, mode):
    write(repository, "a")

    async def main():
        async with serve(repository, mode=mode) as runtime:
            for work in (runtime.repository.load("a", {}), runtime.repository.unload("a")):
                with pytest.raises(Unsupported, match="explicit model load / unload is not allowed if pol"):
                    await work
            assert index(await runtime.repository.index(ready_only=False)) == {("a", "1"): "READY"}

    run(main())


def test_explicit(repository, serve, run, made):
    write(repository, "a")
    write(repository, "b", content="broken")
    write(repository, "c")

    async def main():
        async with serve(repository, mode=ControlMode.EXPLICIT, load_at_start=("c",)) as runtime:
            control = runtime.repository
            assert index(await control.index(ready_only=False)) == {
                ("a", None): None,
                ("b", None): None,
                ("c", "1"): "READY",
            }
            assert index(await control.index(ready_only=True)) == {("c", "1"): "READY"}
            with pytest.raises(UnknownModel, match="'a' is not found"):
                await runtime.infer(request("a"))
            await control.load("a", {})
            await runtime.infer(request("a"))
            with pytest.raises(
                SetupError, match=r"load failed for model 'b': version 1 is at UNAVAILABLE state: .*broken;"
            ):
                await control.load("b", {})
            assert runtime.ready  # a client's trial does not make the server unready
            listed = {entry["name"]: entry for entry in await control.index(ready_only=False)}
            assert listed["b"] == {
                "name": "b",
                "version": "1",
                "state": "UNAVAILABLE",
                "reason": "model 'b' version 1: ValueError: the file is broken",
            }
            for _ in range(2):
                await control.unload("a", dependents=True)
            assert {**listed["a"], "state": "UNAVAILABLE", "reason": "unloaded"} in await control.index(
                ready_only=False
            )
            with pytest.raises(UnknownModel, match="'a' has no available versions"):
                await runtime.infer(request("a"))
            with pytest.raises(SetupError, match="failed to load 'nope', failed to poll from model repository"):
                await control.load("nope", {})
            with pytest.raises(UnknownModel, match="failed to unload 'nope'"):
                await control.unload("nope")
            assert "nope" not in {entry["name"] for entry in await control.index(ready_only=False)}
            (repository / "b" / "model.yaml").write_text("nonsense: 1")
            with pytest.raises(
                SetupError, match=r"failed to load 'b', failed to poll from model repository: .*nonsense"
            ):
                await control.load("b", {})
            (repository / "b" / "model.yaml").write_text("versions: [7]")
            with pytest.raises(
                InvalidInput, match="at least one version must be available under the version policy of"
            ):
                await control.load("b", {})
            for name, says in [
                (" ", "Model name cannot be empty"),
                ("../a", "path traversal"),
                ("..", "path traversal"),
            ]:
                for work in (control.load(name, {}), control.unload(name)):
                    with pytest.raises(InvalidInput, match=says):
                        await work

    run(main())
    assert all(model.loaded == model.closed for model in made if model.file.model != "b")


def test_who_asked_and_went_away_does_not_stop_what_was_begun(repository, serve, run):
    write(repository, "a")

    async def main():
        async with serve(repository, mode=ControlMode.EXPLICIT) as runtime:
            asked = asyncio.ensure_future(runtime.repository.load("a", {}))
            await asyncio.sleep(0)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            while not any(model.ready for model in runtime.models()):  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0.001)
            await runtime.infer(request("a"))

    run(main())


def test_an_override_stands_before_the_folder(repository, serve, run, made, tmp_path):
    write(repository, "a")
    (repository / "a" / "config.pbtxt").write_text("max_batch_size: 8")

    async def main():
        async with serve(repository, mode=ControlMode.EXPLICIT) as runtime:
            load = runtime.repository.load
            await load("a", {"config": json.dumps({"max_batch_size": 2})})
            assert runtime.model("a").max_batch_size == 2
            await load("a", {})
            assert runtime.model("a").max_batch_size == 8
            for config in ("{", "[]", '{"nonsense": 1}', '{"max_batch_size": -1}', '{"backend": "none"}'):
                with pytest.raises(InvalidInput, match="failed to load 'a', failed to poll from model repository"):
                    await load("a", {"config": config})
            lying = {"config": '{"input": [{"name": "x", "data_type": "TYPE_INT32", "dims": [2]}]}'}
            with pytest.raises(
                InvalidInput, match=r"load failed for model 'a': version 1 is at UNAVAILABLE state: .*INT32"
            ):
                await load("a", lying)
            for config, wrong in (
                ({"dynamic_batching": {"preferred_batch_size": [99999]}}, "dynamic_batching.preferred_batch_size: "),
                ({"backend": "none"}, "backend: "),
                ({"instance_group": [{"count": 1000000}]}, "instance_group.count: "),
            ):
                with pytest.raises(InvalidInput) as told:
                    await load("a", {"config": json.dumps(config)})
                assert told.value.message.count(f"the parameter `config`: {wrong}") == 1
                assert told.value.message.count(wrong) == 1
                assert "model.yaml" not in told.value.message
            sent = {"config": json.dumps({"backend": "files", "max_batch_size": 4}), "file:3/model.twin": b"sent"}
            await load("a", sent)
            assert (runtime.model("a").versions, runtime.model("a").max_batch_size) == (("3",), 4)
            folder = made[-1].file.path.parents[1]
            assert folder.is_dir()
            with pytest.raises(SetupError, match="broken"):
                await load("a", {**sent, "file:3/model.twin": b"broken"})
            assert not made[-1].file.path.exists()
            await runtime.infer(request("a", version="3"))
            await load("a", {})
            assert runtime.model("a").versions == ("1",)
            assert not folder.exists()
            await load("new", sent)  # it is in no repository
            await runtime.infer(request("new"))
        assert not made[-1].file.path.exists()

    run(main())


def test_a_reload_of_which_one_version_fails_changes_nothing(repository, serve, run, made):
    write(repository, "a", 1, yaml="versions: all")
    write(repository, "a", 2)

    async def main():
        async with serve(repository) as runtime:
            write(repository, "a", 1, "newer")
            write(repository, "a", 2, "broken")
            before = runtime.model("a", "1")
            with pytest.raises(SetupError, match="broken"):
                await runtime.load("a")
            assert runtime.model("a", "1") is before
            assert runtime.model("a").versions == ("1", "2")
            write(repository, "a", 2, "mended")
            await runtime.load("a")
            assert runtime.model("a", "1") is not before

    run(main())
    assert all(model.closed == 1 for model in made)


@pytest.mark.parametrize("share", [True, False])
def test_instances_alone_are_changed_in_place(repository, serve, run, made, share):
    def yaml(count):
        return f"instances: {{count: {count}, share_session: {str(share).lower()}}}\nmax_batch_size: 1"

    write(repository, "a", yaml=yaml(1))

    async def main():
        async with serve(repository) as runtime:
            handle = runtime.model("a")
            stop = asyncio.Event()

            async def caller():
                while not stop.is_set():
                    await runtime.infer(request("a"))

            callers = [asyncio.ensure_future(caller()) for _ in range(8)]
            for count in (3, 1, 2, 4, 1):
                (repository / "a" / "model.yaml").write_text(yaml(count))
                await runtime.load("a")
                assert runtime.model("a") is handle
                assert handle.config_proto().instance_group[0].count == count
                for _ in range(20):
                    await runtime.infer(request("a"))
            stop.set()
            await asyncio.gather(*callers)
            assert runtime.statistics("a")[0].fail.count == 0
            assert runtime.statistics("a")[0].success.count >= 100

    run(main())
    assert len(made) == (1 if share else 1 + 2 + 1 + 2)
    assert all(model.closed == 1 for model in made)


def test_twenty_reloads_under_load_fail_no_request(repository, serve, run, made):
    path = write(repository, "a", yaml="max_batch_size: 4")

    async def main():
        async with serve(repository) as runtime:
            stop = asyncio.Event()
            answered = 0

            async def caller():
                nonlocal answered
                while not stop.is_set():
                    await runtime.infer(request("a"))
                    answered += 1

            callers = [asyncio.ensure_future(caller()) for _ in range(16)]
            for at in range(20):
                path.write_text(f"version {at}")
                seen = answered
                await runtime.load("a")
                while answered < seen + 20:  # noqa: ASYNC110 - counted by others
                    await asyncio.sleep(0)
            stop.set()
            await asyncio.gather(*callers)

    run(main())
    assert len(made) == 21
    assert all(model.loaded == model.closed == 1 for model in made)


def test_a_name_in_two_repositories_is_an_error_of_that_model_alone(tmp_path, serve, run, caplog):
    write(tmp_path / "x", "a")
    write(tmp_path / "y", "a")
    write(tmp_path / "y", "b")

    async def main():
        async with serve(tmp_path / "x", tmp_path / "y") as runtime:
            assert not runtime.ready
            assert "more than one repository" in runtime.model("a").reason
            await runtime.infer(request("b"))

    run(main())


def test_a_start_that_asks_for_what_is_not_there(repository, serve, run):
    async def main():
        async with serve(repository, mode=ControlMode.EXPLICIT, load_at_start=("a",)):
            pass

    with pytest.raises(UnknownReference, match="model 'a' is in none of the repositories"):
        run(main())


def test_a_thousand_models_are_listed_and_none_is_loaded(repository, serve, run, made):
    for at in range(1000):
        write(repository, f"m{at:04}")

    async def main():
        async with serve(repository, mode=ControlMode.EXPLICIT) as runtime:
            assert len(await runtime.repository.index(ready_only=False)) == 1000
            assert (made, runtime.models()) == ([], [])
            await runtime.repository.load("m0500", {})
            entries = await runtime.repository.index(ready_only=False)
            assert sum("version" in entry for entry in entries) == len(made) == 1
            assert await runtime.repository.index(ready_only=True) == [
                {"name": "m0500", "version": "1", "state": "READY", "reason": ""}
            ]

    run(main())


def test_what_is_left_of_models_that_clients_sent_is_bounded(repository, serve, run, monkeypatch):
    """Clients may send ever new names; what serves, loads, or lies in a repository is not forgotten."""
    monkeypatch.setattr(keeper, "MOST_GONE", 3)
    write(repository, "own")
    sent = {"config": '{"backend": "files"}', "file:1/model.twin": b"fine"}

    async def main():
        async with serve(repository, mode=ControlMode.EXPLICIT) as runtime:
            control = runtime.repository
            await control.load("own", {})
            await control.unload("own")
            await control.load("kept", sent)
            for at in range(10):
                await control.load(f"sent {at}", sent)
                await control.unload(f"sent {at}")
            names = [entry["name"] for entry in await control.index(ready_only=False)]
            assert names == ["kept", "own", "sent 7", "sent 8", "sent 9"]
            assert runtime.model("kept").ready
            assert runtime.model("sent 9").unloaded
            with pytest.raises(SetupError):
                await control.load("broken", sent | {"file:1/model.twin": b"broken"})
            assert set(runtime._keeper.models) == {"kept", "own", "sent 8", "sent 9", "broken"}
            await control.load("sent 0", sent)
            assert runtime.model("sent 0").ready

    run(main())

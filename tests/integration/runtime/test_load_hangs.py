"""Models that hang while they load, warm up or go: the others load, and nobody waits for what hangs."""

import asyncio
import logging
import shutil

import pytest
from test_model_control import Files, index, request, write
from waiting import until

from trilith.core.load_options import ControlMode
from trilith.errors import CapacityError, Conflict, Draining, NoReadyReplica, SetupError
from trilith.runtime import ModelState, Runtime, RuntimeConfig
from trilith.runtime.load_threads import MOST_LEFT_BEHIND
from trilith.testing.backends import kind_of

TIMEOUT_S = 0.5


class Hanging(Files):
    """Hangs where its file says, until it is let go."""

    def __init__(self, file, made, go):
        self._go = go
        self.hangs = file.path.read_text()
        self.waits = False
        super().__init__(file, made)

    def load(self):
        if self.hangs == "hangs":
            self.waits = True
            self._go.wait()
        return super().load()

    def run(self, batch):
        if self.hangs == "hangs warming up":
            self._go.wait()
        return super().run(batch)

    def close(self):
        if self.hangs == "hangs at its end":
            self._go.wait()
        super().close()


@pytest.fixture
def serve(made, go):
    def serve_it(*roots, mode=ControlMode.EXPLICIT, **config):
        kind = kind_of(lambda file: Hanging(file, made, go), filename="model.twin")
        return Runtime(*roots, config=RuntimeConfig(backends={"files": kind}, mode=mode, **config))

    return serve_it


def test_what_hangs_at_the_start_holds_up_no_other(repository, serve, run, made, go, caplog):
    for name in ("a", "b", "c"):
        write(repository, name, content="hangs")
    for name in ("x", "y"):
        write(repository, name)

    async def main():
        async with serve(repository, mode=ControlMode.NONE, load_timeout_s=TIMEOUT_S) as runtime:
            for name in ("x", "y"):
                await runtime.infer(request(name))
            handle = runtime.model("a")
            assert handle.state is ModelState.UNAVAILABLE
            assert "model 'a' version 1: gave up loading after " in handle.reason
            assert "--model-load-timeout-s" in handle.reason
            assert "load_timeout_ms" in handle.reason
            assert not runtime.ready
            go.set()
            await until(lambda: len(made) == 5 and all(model.closed for model in made if model.hangs == "hangs"))
            assert handle.state is ModelState.UNAVAILABLE  # what came too late changes nothing
            await runtime.load("a")
            await runtime.infer(request("a"))

    run(main())
    assert all(model.closed == 1 for model in made)


def test_a_model_may_take_the_time_that_its_configuration_gives_it(repository, serve, run, go):
    write(repository, "a", content="hangs", yaml="load_timeout_ms: 3600000")
    write(repository, "b", content="hangs")

    async def main():
        async with serve(repository, load_timeout_s=TIMEOUT_S) as runtime:
            patient = asyncio.ensure_future(runtime.load("a"))
            with pytest.raises(SetupError, match="gave up loading"):
                await runtime.load("b")
            assert not patient.done()
            go.set()
            assert (await patient).ready

    run(main())


def test_what_hangs_warming_up_is_given_up(repository, serve, run, go):
    write(repository, "a", content="hangs warming up")
    (repository / "a" / "config.pbtxt").write_text(
        'backend: "files" model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 '
        "dims: [2] zero_data: true } } }"
    )

    async def main():
        async with serve(repository, load_timeout_s=TIMEOUT_S) as runtime:
            with pytest.raises(SetupError, match="gave up warming up after"):
                await runtime.load("a")

    run(main())


def test_unloading_what_loads_is_answered_at_once(repository, serve, run, made, go, caplog):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository) as runtime:
            control = runtime.repository
            load = asyncio.ensure_future(control.load("a", {}))
            await until(lambda: made and made[-1].waits)
            [entry] = await control.index(ready_only=False)
            assert (entry["version"], entry["state"]) == ("1", "LOADING")
            assert entry["reason"].startswith("loading for 0 s")
            with pytest.raises(NoReadyReplica, match="it is LOADING"):
                await runtime.infer(request("a"))
            await control.unload("a")
            with pytest.raises(Conflict, match="failed to load 'a', it was unloaded while it was loading"):
                await load
            assert index(await control.index(ready_only=False)) == {("a", "1"): "UNAVAILABLE"}
            assert runtime.model("a").unloaded
            assert made[0].closed == 0
            go.set()
            await until(lambda: made[0].closed)
            assert not runtime.model("a").ready
            write(repository, "a", content="fine")
            await control.load("a", {})
            await runtime.infer(request("a"))

    run(main())
    assert not [said for said in caplog.records if said.levelno >= logging.WARNING]
    assert all(model.closed == 1 for model in made)


def test_unloading_what_is_loaded_again_ends_both(repository, serve, run, made, go):
    write(repository, "a")

    async def main():
        async with serve(repository) as runtime:
            control = runtime.repository
            await control.load("a", {})
            write(repository, "a", content="hangs")
            again = asyncio.ensure_future(control.load("a", {}))
            await until(lambda: len(made) == 2 and made[-1].waits)
            assert (await control.index(ready_only=False))[0]["reason"].startswith("loading for")
            await runtime.infer(request("a"))  # the old one serves meanwhile
            await control.unload("a")
            with pytest.raises(Conflict):
                await again
            assert made[0].closed == 1
            go.set()

    run(main())
    assert made[1].closed == 1


def test_who_wants_the_same_shares_the_load(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository) as runtime:
            loads = [asyncio.ensure_future(runtime.repository.load("a", {})) for _ in range(5)]
            loads.append(asyncio.ensure_future(runtime.load("a")))
            keeper = runtime._keeper
            await until(
                lambda: made and made[-1].waits and len(keeper.models["a"].attempts) == 6 and not keeper.planners._jobs
            )
            go.set()
            await asyncio.gather(*loads)
            assert len(made) == 1

    run(main())


def test_a_load_of_something_else_takes_the_place_of_one_that_hangs(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository) as runtime:
            control = runtime.repository
            first = asyncio.ensure_future(control.load("a", {}))
            await until(lambda: made and made[-1].waits)
            write(repository, "a", content="mended")
            await control.load("a", {})
            with pytest.raises(Conflict, match="a later load took this one's place"):
                await first
            await runtime.infer(request("a"))
            go.set()
            await until(lambda: made[0].closed)
            await runtime.infer(request("a"))
            assert index(await control.index(ready_only=False)) == {("a", "1"): "READY"}

    run(main())
    assert all(model.closed == 1 for model in made)


def test_whoever_goes_away_takes_his_load_along(repository, serve, run, made, go):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository) as runtime:
            load = asyncio.ensure_future(runtime.load("a"))
            await until(lambda: made and made[-1].waits)
            load.cancel()
            with pytest.raises(asyncio.CancelledError):
                await load
            assert runtime.model("a").state is ModelState.UNAVAILABLE
            go.set()
            await until(lambda: made[0].closed)

    run(main())


def test_so_many_hang_and_no_more_are_let_in(repository, serve, run, go):
    write(repository, "fine")
    for at in range(MOST_LEFT_BEHIND):
        write(repository, f"m{at}", content="hangs")

    async def main():
        async with serve(repository, load_timeout_s=TIMEOUT_S, load_threads=MOST_LEFT_BEHIND) as runtime:
            loads = [runtime.load(f"m{at}") for at in range(MOST_LEFT_BEHIND)]
            assert all(isinstance(each, SetupError) for each in await asyncio.gather(*loads, return_exceptions=True))
            with pytest.raises(CapacityError, match=f"{MOST_LEFT_BEHIND} loads that were given up still run"):
                await runtime.load("fine")
            go.set()
            await until(lambda: runtime.load_statistics().left_behind == 0)
            await runtime.load("fine")

    run(main())


def test_the_end_waits_for_nothing_that_hangs(repository, serve, run, made, go, caplog):
    write(repository, "a", content="hangs")

    async def main():
        async with serve(repository, drain_timeout_s=TIMEOUT_S) as runtime:
            load = asyncio.ensure_future(runtime.load("a"))
            await until(lambda: made and made[-1].waits)
        with pytest.raises(Draining, match="stopped while the model was loading"):
            await load
        assert "model 'a' version 1 still loads, and is left behind" in caplog.text

    caplog.set_level(logging.WARNING)
    run(main())


def test_what_hangs_when_it_is_freed_is_left_behind(repository, serve, run, made, go, monkeypatch, caplog):
    monkeypatch.setattr("trilith.runtime.served._CLOSE_TIMEOUT_S", TIMEOUT_S)
    write(repository, "a", content="hangs at its end")

    async def main():
        async with serve(repository) as runtime:
            await runtime.load("a")
            await runtime.unload("a")
            assert runtime.model("a").unloaded
            assert "was left behind" in caplog.text
            write(repository, "a", content="fine")
            await runtime.load("a")
            await runtime.infer(request("a"))

    run(main())


def test_polling_follows_all_files_while_a_model_hangs(repository, serve, run, made, go):
    write(repository, "a")
    write(repository, "b", content="hangs")
    write(repository, "c", content="hangs")

    async def main():
        runtime = serve(repository, mode=ControlMode.POLL, poll_s=0.01, load_threads=4)
        entered = asyncio.ensure_future(runtime.__aenter__())
        await until(lambda: sum(model.hangs == "hangs" and model.waits for model in made) == 2)
        write(repository, "late")
        await until(lambda: runtime.repository.is_ready("late", ""))
        write(repository, "b", content="fine")  # its load is given up, and the new state takes its place
        await until(lambda: runtime.repository.is_ready("b", ""))
        shutil.rmtree(repository / "c")  # so is this one's, and nothing takes its place
        await until(lambda: runtime.model("c").unloaded)
        await entered
        assert runtime.ready
        write(repository, "d", content="hangs")  # and the same once the server is ready
        await until(lambda: sum(model.hangs == "hangs" and model.waits for model in made) == 3)
        write(repository, "e")
        await until(lambda: runtime.repository.is_ready("e", ""))
        write(repository, "d", content="fine")
        await until(lambda: runtime.repository.is_ready("d", ""))
        go.set()
        await runtime.__aexit__(None, None, None)

    run(main())
    assert all(model.closed == 1 for model in made)


def test_a_load_that_is_undone_as_soon_as_it_is_done_is_overtaken(repository, serve, run, monkeypatch):
    write(repository, "a")

    async def main():
        async with serve(repository) as runtime:
            keeper = runtime._keeper
            real = keeper.load

            async def load(name, **more):
                handles = await real(name, **more)
                await keeper.unload(name)
                return handles

            monkeypatch.setattr(keeper, "load", load)
            with pytest.raises(Conflict, match="it was unloaded as soon as it was loaded"):
                await runtime.repository.load("a", {})

    run(main())

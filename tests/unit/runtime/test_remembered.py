"""What is kept of clients' loads, and what a start makes of it."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from trilith.runtime.kept import Model
from trilith.runtime.overrides import Override
from trilith.runtime.remembered import LoadMemory, RememberedLoad, to_resume

names = st.sampled_from("abcde")
entries = st.lists(st.tuples(names, st.booleans()), unique_by=lambda entry: entry[0])


@given(st.lists(names, unique=True), entries)
def test_a_start_resumes_what_clients_did_last(start, left):
    resumed = to_resume(start, [RememberedLoad(name=name, loaded=loaded) for name, loaded in left])
    last = dict(left)
    assert len(set(resumed)) == len(resumed)
    assert set(resumed) == {name for name in {*start, *last} if last.get(name, name in start)}


def model(override=None, *, served=True):
    made = Model("m")
    made.served = {"1": None} if served else {}
    made.override = override
    return made


def test_what_stands_is_read_by_the_next_and_files_that_nothing_needs_are_removed(tmp_path):
    async def main():
        memory = LoadMemory(tmp_path / "loads")
        needed, unneeded = (Override("a/b", "{}", {"1/f": b"x"}) for _ in range(2))
        for each in (needed, unneeded):
            each.write(memory.folder)
        await memory.note("a/b", model(needed))
        await memory.note("plain", model())
        await memory.note("off", model(served=False))
        await memory.note("unknown", None)
        left = {entry.name: entry for entry in await LoadMemory(tmp_path / "loads").read()}
        assert {name: entry.loaded for name, entry in left.items()} == {"a/b": True, "plain": True, "off": False}
        override = left["a/b"].override(memory.folder)
        assert (override.folder / "1" / "f").read_bytes() == b"x"
        assert override.config == "{}"
        assert left["plain"].override(memory.folder) is None
        assert needed.holder.is_dir()
        assert not unneeded.holder.exists()

    asyncio.run(main())


def test_a_file_that_is_none_costs_that_model_alone(tmp_path, caplog):
    async def main():
        memory = LoadMemory(tmp_path)
        await memory.note("a", model())
        (tmp_path / "broken.load").write_bytes(b"\xff")
        return [entry.name for entry in await LoadMemory(tmp_path).read()]

    assert asyncio.run(main()) == ["a"]
    assert "cannot be read from" in caplog.text


def test_nothing_is_kept_of_unloaded_models_that_no_start_would_load(tmp_path):
    async def main():
        memory = LoadMemory(tmp_path)
        await memory.read(["started"])
        for name in ("started", "sent 1", "sent 2"):
            await memory.note(name, model())
        assert len(list(tmp_path.iterdir())) == 3
        for name in ("started", "sent 1", "sent 2", "never loaded"):
            await memory.note(name, model(served=False))
        assert [(entry.name, entry.loaded) for entry in await LoadMemory(tmp_path).read()] == [("started", False)]
        assert len(list(tmp_path.iterdir())) == len(memory._written) == 1
        await memory.note("sent 1", model())
        assert len(await LoadMemory(tmp_path).read()) == 2

    asyncio.run(main())

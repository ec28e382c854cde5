"""A repository to fill, and a loop to run it on."""

import asyncio

import pytest
import uvloop


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILITH_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def run():
    """Runs a coroutine to its end, within a time limit."""

    def run_it(coroutine):
        async def limited():
            async with asyncio.timeout(50):
                return await coroutine

        return uvloop.run(limited())

    return run_it

"""A model repository to fill, and a loop to run it on."""

import asyncio
import threading

import pytest
import uvloop


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def run():
    """Runs a coroutine to its end, within a time limit."""

    def run_it(coroutine):
        async def limited():
            async with asyncio.timeout(30):
                return await coroutine

        return uvloop.run(limited())

    return run_it


@pytest.fixture
def made():
    """The fake backends that a test made, in order."""
    return []


@pytest.fixture
def go():
    """Lets go of what hangs."""
    event = threading.Event()
    yield event
    event.set()

"""Services with hooks; files in the folder HOOKS decide what they say."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import trilith

FOLDER = Path(os.environ["HOOKS"])


def note(text: str) -> None:
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{text}\n")


@trilith.service(replicas=2, health_interval_s=0.1, health_timeout_s=5, health_failures=2)
class Health:
    def __is_ready__(self) -> bool:
        return not (FOLDER / f"unready-{os.getpid()}").exists() and not (FOLDER / "unready").exists()

    async def __is_alive__(self) -> bool:
        return not (FOLDER / f"dead-{os.getpid()}").exists()

    @trilith.api
    async def pid(self) -> int:
        await asyncio.sleep(0)
        return os.getpid()


@trilith.service(replicas=2)
class Deployed:
    @trilith.on_deploy
    def migrate() -> None:
        note("migrate")
        if (FOLDER / "crash").exists():
            os._exit(7)
        if (FOLDER / "fail").exists():
            raise RuntimeError("the table is locked")

    def __init__(self) -> None:
        note("made")

    @trilith.api
    async def pid(self) -> int:
        return os.getpid()


@trilith.service(cpu=1)
class Bounded:
    @trilith.on_deploy
    async def migrate() -> None:
        note("migrate")

    @trilith.api
    async def pid(self) -> int:
        return os.getpid()


@trilith.service
class Fails:
    def __init__(self) -> None:
        note("tried")
        raise RuntimeError("no licence")

    @trilith.api
    async def pid(self) -> int:
        return 1


@trilith.service
class Crashes:
    def __init__(self) -> None:
        note("tried")
        os._exit(9)

    @trilith.api
    async def pid(self) -> int:
        return 1


@trilith.service
class NeedsCrashing:
    inner = trilith.depends(Crashes)

    @trilith.api
    async def pid(self) -> int:
        return 1

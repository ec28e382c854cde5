"""A service that holds on to what is uploaded."""

from __future__ import annotations

import os
import time
from pathlib import Path

import trilith


@trilith.service
class Uploads:
    @trilith.api(timeout_s=60)
    def hold(self, file: Path, until: str) -> int:
        """The size of the file, when there is something at `until`."""
        while not Path(until).exists():
            time.sleep(0.02)
        return file.stat().st_size

    @trilith.api
    async def place(self, file: Path) -> list[str | int]:
        return [str(file), os.getpid()]

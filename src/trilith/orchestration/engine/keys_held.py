"""The agent's keys: read from their file at the start, and again when a person says so (SIGHUP).

Rule: what cannot be read changes nothing: those that were read last hold on.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from trilith.core.foreign import error_text
from trilith.core.log_options import LogLevel
from trilith.errors import InvalidConfig
from trilith.orchestration.access import KeyRing, Scopes, read_key_file


class HeldKeys:
    """The keys of one server.

    Attributes:
        ring: those that hold.
    """

    def __init__(self, path: Path) -> None:
        """Reads them.

        Raises:
            InvalidConfig: they cannot be read.
        """
        self._path = path.absolute()  # the current folder may have another name later
        self.ring: KeyRing = read_key_file(self._path)
        self._reading = asyncio.Lock()  # what is read last is what was there last

    @property
    def docs_are_public(self) -> bool:
        """Whether a browser, which cannot show a key, may look at `/docs`."""
        public = Scopes(self.ring.public)
        return public.path("/docs") and public.path("/openapi.json")

    async def read_again(self) -> tuple[str, LogLevel]:
        """Reads the file; a line that says what came of it, and how bad that is."""
        async with self._reading:
            try:
                self.ring = await asyncio.to_thread(read_key_file, self._path)
            except InvalidConfig as error:
                return f"the keys before stay: {error.message}", "error"
            except RuntimeError as error:  # Python's, for a thread that cannot be started
                return f"the keys before stay: {error_text(error)}", "error"
        return f"{len(self.ring.rules)} keys read from {self._path}", "info"


def has_terminal() -> bool:
    """Whether there is a terminal that can send signals to this process: one that closes sends SIGHUP, and is gone."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True

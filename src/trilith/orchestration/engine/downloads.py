"""Downloads of models, shown to the person who started the server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilith.runtime.sources import FetchEvent
    from trilith.runtime.sources.console import ConsoleProgress


class ShownDownloads:
    """A progress that draws bars while something is being fetched, and loads what draws them only then."""

    def __init__(self) -> None:
        self._console: ConsoleProgress | None = None
        self._fetching: set[str] = set()
        self._lock = threading.Lock()  # models are loaded by several threads

    def __call__(self, event: FetchEvent) -> None:
        """Shows one event; bars are drawn from the first fetch that begins to the last that ends."""
        from trilith.runtime.sources import Phase

        with self._lock:
            if event.phase is Phase.READY:
                self._fetching.discard(event.source)
            else:
                self._fetching.add(event.source)
            if self._console is None:
                if event.phase is Phase.READY:
                    return  # it was in the cache
                from trilith.runtime.sources.console import ConsoleProgress

                self._console = ConsoleProgress()
                self._console.__enter__()
            self._console(event)
            if not self._fetching:
                self._console.__exit__(None, None, None)
                self._console = None

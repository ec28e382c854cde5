"""Shows fetches to a person: a bar on a terminal, one line a step elsewhere. Needs rich."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from trilith.runtime.sources.progress import FetchEvent, Phase


class ConsoleProgress:
    """A `Progress` for people, and a context manager: the bars are drawn between `with` and its end.

    Nothing is written for files that are in the cache already.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(file=stream or sys.stderr)
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._phases: dict[str, Phase] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def __call__(self, event: FetchEvent) -> None:
        """Draws one event."""
        if self._console.is_terminal:
            self._draw(event)
        elif self._phases.get(event.source) is not event.phase:
            self._console.print(f"{event.phase}: {event.source}", soft_wrap=True, highlight=False, markup=False)
        self._phases[event.source] = event.phase

    def _draw(self, event: FetchEvent) -> None:
        description = f"{event.phase} {event.source.rpartition('/')[2]}"
        task = self._tasks.get(event.source)
        if task is None:
            task = self._tasks[event.source] = self._bars.add_task(description, total=event.total_bytes)
        self._bars.update(task, description=description, total=event.total_bytes, completed=event.done_bytes)

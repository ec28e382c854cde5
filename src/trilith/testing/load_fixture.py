"""The fixture `load` for pytest. In your `conftest.py`:

    pytest_plugins = ["trilith.testing.load_fixture"]

Rule: this file alone imports pytest; `trilith.testing.load` works without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from trilith.measure.copies import RunningCopy
from trilith.testing.load import LoadComparison, compare_load, served


class Load:
    """Serves targets for one test, and compares them. All end with the test."""

    def __init__(self, running: ExitStack) -> None:
        """Only assigns."""
        self._running = running

    def serve(
        self,
        target: str,
        *,
        settings: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        folder: Path | None = None,
    ) -> RunningCopy:
        """As `trilith.testing.load.served`, until the end of the test."""
        return self._running.enter_context(served(target, settings=settings, options=options, folder=folder))

    def compare(self, baseline: str, candidate: str, **options: Any) -> LoadComparison:
        """As `trilith.testing.load.compare_load`."""
        return compare_load(baseline, candidate, **options)


@pytest.fixture
def load() -> Iterator[Load]:
    """Serves and compares targets: performance as a ratio to a baseline."""
    with ExitStack() as running:
        yield Load(running)

"""The fixtures of services that are hosted in the test's own loop."""

from collections.abc import Callable
from typing import Any

import pytest

from hosted_service import Hosted, call_hosted, run_hosted


@pytest.fixture
def serve() -> Callable[..., Any]:
    """Runs a scenario against a hosted service."""
    return run_hosted


@pytest.fixture
def call_once() -> Callable[..., Any]:
    """The answer to one call of a service."""
    return call_hosted


@pytest.fixture
def hosted_type() -> type[Hosted]:
    """For tests that make their own host."""
    return Hosted

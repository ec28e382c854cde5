"""For all tests: a property is judged by what it finds, never by how long a busy machine takes over an example."""

import gc
import os

from hypothesis import HealthCheck, settings

# A property is tried a few dozen times in CI, which runs all day, and thoroughly in `make test-full`.
settings.register_profile("quick", deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=200)
settings.load_profile(os.environ.get("TRILITH_EXAMPLES", "quick"))


def pytest_configure() -> None:
    """What is imported and collected stays: the collector of circles need not walk over it, then or ever after."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()

"""The ONNX models of the folder above are used here too."""

import sys
from pathlib import Path

import pytest

from trilith.runtime.backends.denormals import denormals_preserved

sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture(autouse=True)
def own_thread_as_it_was():
    """A test that plays an instance's thread sets what such a thread sets; the next test starts without it."""
    with denormals_preserved():
        yield

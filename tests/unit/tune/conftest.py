"""Small matrices are solved by one thread: on a machine that is busy, several wait for each other far longer."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    with threadpool_limits(limits=1):
        yield

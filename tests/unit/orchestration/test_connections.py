"""However few descriptors there are, clients leave those that a gateway itself needs."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.orchestration.connections import ConnectionBounds, connection_bounds

MOST = ConnectionBounds(http=1024, grpc=1024, metrics=1024, turned_away=256)


@given(st.integers(56, 100_000))
def test_what_is_dealt_out_leaves_the_reserve(descriptors):
    bounds = connection_bounds(descriptors, MOST)
    dealt = bounds.http + bounds.grpc + bounds.metrics + 2 * bounds.turned_away
    assert descriptors - dealt >= min(44, descriptors // 2)
    assert min(bounds.http, bounds.grpc, bounds.metrics, bounds.turned_away) >= 1


@given(st.integers(0, 70_000), st.integers(0, 70_000))
def test_more_descriptors_are_never_fewer_connections(one, other):
    fewer, more = (connection_bounds(descriptors, MOST) for descriptors in sorted((one, other)))
    for name in ("http", "grpc", "metrics", "turned_away"):
        assert getattr(fewer, name) <= getattr(more, name)


@pytest.mark.parametrize(
    ("descriptors", "http", "metrics", "turned_away"),
    [(0, 1, 1, 1), (64, 6, 2, 1), (128, 24, 8, 4), (1024, 192, 64, 32), (65_536, 1024, 1024, 256)],
)
def test_bounds_by_limit(descriptors, http, metrics, turned_away):
    expected = ConnectionBounds(http=http, grpc=http, metrics=metrics, turned_away=turned_away)
    assert connection_bounds(descriptors, MOST) == expected


@pytest.mark.parametrize(("soft", "hard", "allowed"), [(50, 100, 100), (100, 100, 100)])
def test_a_process_may_open_what_its_hard_limit_says(soft, hard, allowed):
    program = (
        "from trilith.orchestration.engine.process import raise_descriptor_limit as r\n"
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
        "print(r(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.split() == [str(allowed), str(allowed)]


def test_the_limit_is_bounded(monkeypatch):
    from trilith.orchestration.engine.process import raise_descriptor_limit

    was_set = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: was_set.append(limits))
    assert raise_descriptor_limit() == 65_536
    assert was_set == [(65_536, resource.RLIM_INFINITY)]

"""Which path was meant by one at which there is nothing."""

import pytest

from trilith.orchestration.engine.near_path import near_path

KNOWN = ["/opt", "/Read", "/classify", "/docs", "/v2"]


@pytest.mark.parametrize(
    ("path", "meant"),
    [("/opt/", "/opt"), ("/OPT", "/opt"), ("/read", "/Read"), ("/clasify", "/classify"), ("/", ""), ("/else", "")],
)
def test_what_was_meant(path, meant):
    assert near_path(path, KNOWN) == meant


def test_little_is_compared():
    assert near_path("/" + "a" * 60, ["/" + "a" * 59 + "b"]) == ""
    assert near_path("/clasify", [*KNOWN, *(f"/{number}" for number in range(40))]) == ""
    assert near_path("/opt/", [*KNOWN, *(f"/{number}" for number in range(40))]) == "/opt"

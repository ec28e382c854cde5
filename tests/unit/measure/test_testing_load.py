"""What a requirement on a ratio passes, fails and leaves open."""

import math
import unittest
from pathlib import Path

import pytest

from trilith.errors import InvalidConfig
from trilith.measure import RatioEstimate, Verdict
from trilith.measure.compare import CompareReport, Comparison
from trilith.testing.load import LoadComparison, TooNoisy, _sent


def found(low, high, figure="throughput"):
    ratio = RatioEstimate(
        ratio=math.sqrt(low * high), low=low, high=high, confidence=0.95, rounds=20, noise=0.1, method="trimmed"
    )
    comparison = Comparison(
        baseline="baseline",
        other="candidate",
        ratios={figure: ratio},
        decisive=figure,
        verdict=Verdict.UNCLEAR,
        noisy=False,
        sentence="What was found.",
    )
    return LoadComparison(
        CompareReport(
            conditions={},
            concurrency=8,
            round_s=1.0,
            standings=(),
            comparisons=(comparison,),
            notes=("A note.",),
            rounds=(),
        )
    )


def test_at_least_fails_when_the_whole_interval_is_below():
    found(0.95, 1.1).require_at_least(0.9)
    found(0.85, 1.0).require_at_least(0.9)  # nobody can say that it is missed
    with pytest.raises(AssertionError, match=r"at least 0\.9 x the baseline's, got 0\.825 x .* A note\."):
        found(0.8, 0.85).require_at_least(0.9)


def test_at_most_fails_when_the_whole_interval_is_above():
    found(0.9, 1.1, "p99").require_at_most(1.2)
    found(1.1, 1.4, "p99").require_at_most(1.2)
    with pytest.raises(AssertionError, match=r"p99: expected at most 1\.2"):
        found(1.3, 1.4, "p99").require_at_most(1.2)


def test_who_wants_to_be_sure_fails_on_what_is_open():
    found(1.25, 1.4).require_at_least(1.2, sure=True)
    with pytest.raises(AssertionError, match="not sure enough"):
        found(1.1, 1.4).require_at_least(1.2, sure=True)


def test_what_says_nothing_is_skipped_and_not_passed():
    with pytest.raises(TooNoisy, match="off by 10%"):
        found(0.5, 1.5).require_at_least(0.9)
    assert issubclass(TooNoisy, unittest.SkipTest)
    with pytest.raises(AssertionError):  # wide, and still sure
        found(0.2, 0.8).require_at_least(0.9)


def test_a_figure_that_was_not_measured_is_told():
    with pytest.raises(InvalidConfig, match="no 'p99' in this comparison, only throughput"):
        found(0.9, 1.1).ratio("p99")


def test_what_is_sent(tmp_path: Path):
    (tmp_path / "page.png").write_bytes(b"png")
    [file], content_type = _sent({"x": 1}, "", tmp_path)
    assert (Path(file).read_bytes(), content_type) == (b'{"x":1}', "application/json")
    [file], content_type = _sent(b"raw", "text/plain", tmp_path)
    assert (Path(file).read_bytes(), content_type) == (b"raw", "text/plain")
    assert _sent(tmp_path / "page.png", "", tmp_path) == ((str(tmp_path / "page.png"),), "")
    assert _sent(None, "", tmp_path) == ((), "")

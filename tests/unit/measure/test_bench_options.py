import pytest

from trilith.cli.bench_options import parse_concurrency, parse_duration_s
from trilith.cli.compare import parse_share
from trilith.errors import InvalidConfig


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("5s", 5), ("2m", 120), ("1h", 3600), ("1.5", 1.5)])
def test_durations(text, seconds):
    assert parse_duration_s("--duration", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "5 days", "-1s", "1e3"])
def test_what_is_no_duration_is_refused_with_its_option(text):
    with pytest.raises(InvalidConfig, match="--warmup"):
        parse_duration_s("--warmup", text)


def test_concurrency():
    assert parse_concurrency("1, 8,32") == (1, 8, 32)
    for text in ("", "0", "1,,2", "a", "20000", "-1"):
        with pytest.raises(InvalidConfig, match="--concurrency"):
            parse_concurrency(text)


@pytest.mark.parametrize(
    ("text", "share"), [("15%", 0.15), ("1 %", 0.01), ("150%", 1.5), ("0.15", 0.15), ("0.99", 0.99)]
)
def test_a_share_has_its_percent_sign_or_is_below_one(text, share):
    assert parse_share("--until", text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["1", "1.5", "15", "0", "0%", "-1%", "nan", "inf", "2000%", "wide", "%", ""])
def test_a_share_of_one_or_more_without_a_sign_is_refused(text):
    with pytest.raises(InvalidConfig, match=r"--until '.*': expected a share like 15% or 0\.15"):
        parse_share("--until", text)

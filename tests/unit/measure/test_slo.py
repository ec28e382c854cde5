import pytest

from trilith.errors import InvalidConfig
from trilith.measure import Slo, SloResult


@pytest.mark.parametrize(
    ("text", "limit_s", "share"), [("80ms", 0.08, 0.99), ("p95=1.5s", 1.5, 0.95), ("p99.9<200us", 2e-4, 0.999)]
)
def test_a_promise_is_read(text, limit_s, share):
    slo = Slo.parse(text)
    assert (slo.limit_s, slo.share) == pytest.approx((limit_s, share))


@pytest.mark.parametrize("text", ["", "p95", "fast", "0ms", "p0=1s", "99=1s", "-1ms"])
def test_what_is_no_promise_is_refused(text):
    with pytest.raises(InvalidConfig, match=r"--slo .*expected"):
        Slo.parse(text)


def test_few_requests_show_little():
    def result(good, of):
        return SloResult(slo=Slo(limit_s=1, share=0.99), good=good, of=of, goodput_per_s=1)

    assert result(3, 3).met
    assert not result(3, 3).enough
    assert not result(3, 3).clear
    assert result(100, 100).enough
    assert not result(985, 1000).clear  # 15 misses where 10 are allowed
    assert result(960, 1000).clear
    assert result(2000, 2000).clear


def test_a_failure_is_a_miss():
    kept = SloResult(slo=Slo(limit_s=1, share=0.9), good=9, of=10, goodput_per_s=9)
    assert kept.met
    assert not SloResult(slo=kept.slo, good=9, of=11, goodput_per_s=9).met
    assert not SloResult(slo=kept.slo, good=0, of=0, goodput_per_s=0).met

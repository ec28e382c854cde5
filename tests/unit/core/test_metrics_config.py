"""`--metrics-config`, as tritonserver reads it."""

import pytest

from trilith.core.load_options import LoadOptions
from trilith.core.metrics_config import MetricsConfig, read_metrics_config
from trilith.errors import InvalidConfig


def test_settings_are_read_and_the_last_holds():
    assert read_metrics_config([]) == MetricsConfig()
    found = read_metrics_config(
        [
            "summary_latencies=false",
            "summary_latencies=true",
            "counter_latencies=0",
            "summary_quantiles=0.5:0.1,0.990:0",
        ]
    )
    assert found == MetricsConfig(
        summary_latencies=True, counter_latencies=False, summary_quantiles=(("0.5", 0.5), ("0.990", 0.99))
    )
    assert not LoadOptions(metrics_config=("histogram_latencies=false",)).shown_metrics.histogram_latencies


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("summary_latencies", "option format is '<setting>=<value>'"),
        ("=true", "option format"),
        ("summary_latencies=", "option format"),
        ("summary_latencies=maybe", "must be true or false, got 'maybe'"),
        ("summaries=true", "there is no setting 'summaries'; there is counter_latencies"),
        *(
            (f"summary_quantiles={value}", "must be pairs of a quantile and its error")
            for value in ("0.5", "2:0", "a:b")
        ),
        *((f"summary_quantiles={value}", "must be pairs") for value in ("nan:0.1", "0.5:-1", "0.5:0.1,", "0.1_1:0.1")),
        ("summary_quantiles=" + ",".join(f"0.{at:03}:0" for at in range(33)), "must be at most 32 quantiles, got 33"),
    ],
)
def test_what_is_wrong_is_told(setting, says):
    with pytest.raises(InvalidConfig) as caught:
        LoadOptions(metrics_config=(setting,))
    assert caught.value.message.startswith(f"--metrics-config {setting[:50]}")
    assert says in caught.value.message

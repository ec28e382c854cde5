"""Summaries, and histograms whose buckets a configuration chooses."""

import asyncio
import re

import numpy as np
import pytest

from trilith.core.metrics_config import read_metrics_config
from trilith.core.request import InferRequest
from trilith.errors import InvalidConfig
from trilith.runtime import Runtime, RuntimeConfig, check_models
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.protocol.metrics import model_source
from trilith.telemetry import Metrics
from trilith.telemetry.exposition import render

CONFIG = """backend: "identity" max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }
"""
FAMILY = "nv_inference_first_response_histogram_ms"
CONTROL = (
    "model_metrics {{ metric_control {{ metric_identifier {{ family: '{}' }} histogram_options {{ buckets: {} }} }} }}"
)


def scraped(root, *settings, requests=3, loads=1):
    async def main():
        config = RuntimeConfig(metrics_config=settings)
        async with Runtime(root, config=config) as runtime:
            for _ in range(loads):
                for _ in range(requests):
                    await runtime.infer(InferRequest(model="m", inputs={"x": np.ones((2, 1), np.float32)}))
                await runtime.load("m")
            metrics = Metrics()
            metrics.add_source(model_source(runtime, read_metrics_config(settings)))
            return render(metrics).decode().splitlines()

    return asyncio.run(main())


@pytest.fixture
def models(tmp_path):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text(CONFIG)
    return tmp_path


def test_summaries_are_there_when_they_are_wanted(models):
    assert not any("summary" in line for line in scraped(models))
    lines = scraped(models, "summary_latencies=true", "summary_quantiles=0.50:0.05,1:0", loads=2)
    for phase in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        name = f"nv_inference_{phase}_summary_us"
        assert f"# TYPE {name} summary" in lines
        found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)}
        assert list(found) == [
            f'{name}{{model="m",version="1",quantile="0.50"}}',
            f'{name}{{model="m",version="1",quantile="1"}}',
            f'{name}_sum{{model="m",version="1"}}',
            f'{name}_count{{model="m",version="1"}}',
        ]
        middle, most, total, count = found.values()
        assert count == 6
        assert 0 <= middle <= most <= total * 1.011


def test_nothing_lately_is_no_number(models):
    lines = scraped(models, "summary_latencies=true", requests=0)
    assert 'nv_inference_queue_summary_us{model="m",version="1",quantile="0.999"} Nan' in lines
    assert 'nv_inference_queue_summary_us_count{model="m",version="1"} 0' in lines


@pytest.mark.parametrize(
    ("setting", "gone"),
    [("counter_latencies=false", "nv_inference_.*_duration_us"), ("histogram_latencies=false", FAMILY)],
)
def test_families_that_are_not_wanted_are_not_there(models, setting, gone):
    assert any(re.match(gone, line) for line in scraped(models))
    lines = scraped(models, setting)
    assert not any(re.search(gone, line) for line in lines)
    assert 'nv_inference_request_success{model="m",version="1"} 3' in lines
    assert any(line.startswith("trilith_model_seconds_total") for line in lines)


def test_a_configuration_chooses_buckets(models):
    (models / "m" / "config.pbtxt").write_text(CONFIG + CONTROL.format(FAMILY, [0, 60000]))
    lines = scraped(models, "summary_latencies=true")
    counts = [line for line in lines if line.startswith(f"{FAMILY}_bucket")]
    assert counts == [
        f'{FAMILY}_bucket{{le="{bound}",model="m",version="1"}} {number}'
        for bound, number in (("0.0", "0.0"), ("60000.0", "3.0"), ("+Inf", "3.0"))
    ]
    assert 'nv_inference_request_summary_us_count{model="m",version="1"} 3' in lines
    (found,) = check_models(models)
    assert found.without_effect == []
    (models / "m" / "config.pbtxt").write_text(CONFIG + CONTROL.format("nv_other", [1]))
    (found,) = check_models(models)
    assert found.without_effect == [f"model_metrics has no effect on a CPU: only the buckets of {FAMILY} can be chosen"]


@pytest.mark.parametrize(
    ("buckets", "says"),
    [
        ([2, 1], "must ascend, got"),
        ([1, 1], "must ascend, got"),
        ([-1], "finite numbers >= 0, got"),
        ("inf", "finite numbers"),
        ("nan", "finite numbers"),
        (list(range(257)), "at most 256"),
    ],
)
def test_buckets_that_are_none_are_refused(buckets, says):
    with pytest.raises(
        InvalidConfig, match=r"c: model_metrics.metric_control\[0\].histogram_options.buckets: "
    ) as caught:
        parse_model_pbtxt(CONFIG + CONTROL.format(FAMILY, buckets), "m", source="c")
    assert says in caught.value.message

"""What a model's histograms and Triton's metric names say, and that both agree with the statistics."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.request import InferRequest
from trilith.runtime import Runtime
from trilith.runtime.distributions import ModelDistributions
from trilith.runtime.protocol import model_source
from trilith.telemetry import BATCH_BOUNDS, LATENCY_BOUNDS_S, HostMetrics, Metrics
from trilith.telemetry.exposition import render

CONFIG = """
backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
"""


def scrape(source):
    metrics = Metrics()
    metrics.add_source(source)
    text = render(metrics).decode()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return text, samples


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    (root / "m" / "1").mkdir(parents=True)
    (root / "m" / "config.pbtxt").write_text(CONFIG)

    async def main():
        async with Runtime(root) as runtime:
            for rows, priority in ((1, 1), (3, 0), (3, 0)):
                array = np.zeros((rows, 1), np.float32)
                await runtime.infer(InferRequest(model="m", inputs={"INPUT0": array}, priority=priority))
            return scrape(model_source(runtime))

    return asyncio.run(main())


def test_triton_names_and_their_literal_form(scraped):
    text, _ = scraped
    lines = text.splitlines()
    assert 'nv_inference_request_success{model="m",version="1"} 3' in lines
    assert 'nv_inference_count{model="m",version="1"} 7' in lines
    assert 'nv_inference_exec_count{model="m",version="1"} 3' in lines
    for reason in ("BACKEND", "CANCELED", "OTHER", "REJECTED"):
        assert f'nv_inference_request_failure{{model="m",reason="{reason}",version="1"}} 0' in lines
    assert any(line.startswith('nv_model_load_duration_secs{model="m",version="1"} ') for line in lines)
    assert 'nv_inference_pending_request_count{model="m",version="1"} 0' in lines
    assert "# TYPE nv_inference_request_success counter" in lines
    assert "# TYPE nv_inference_pending_request_count gauge" in lines


def test_the_tags_of_a_model_are_labels_of_its_metrics_alone(tmp_path):
    for name, tags in (("plain", ""), ("tagged", 'metric_tags { key: "team" value: "ocr \\"a\\"" }')):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(CONFIG + tags)

    async def main():
        async with Runtime(tmp_path) as runtime:
            return scrape(model_source(runtime))

    text, _ = asyncio.run(main())
    lines = text.splitlines()
    assert 'nv_inference_request_success{model="plain",version="1"} 0' in lines
    assert 'nv_inference_request_success{model="tagged",team="ocr \\"a\\"",version="1"} 0' in lines
    assert any(line.startswith('nv_model_load_duration_secs{model="tagged",team="ocr') for line in lines)
    name = "nv_inference_first_response_histogram_ms_count"
    assert f'{name}{{model="plain",version="1"}} 0.0' in lines
    assert f'{name}{{model="tagged",team="ocr \\"a\\"",version="1"}} 0.0' in lines
    assert "team" not in "".join(line for line in lines if line.startswith("trilith_"))


def test_histograms(scraped):
    _, samples = scraped
    for phase in ("total", "input", "compute", "output"):
        assert samples[f'trilith_model_request_seconds_count{{model="m",phase="{phase}",version="1"}}'] == "3.0"
    assert samples['trilith_model_queue_seconds_count{model="m",priority="1",version="1"}'] == "1.0"
    assert samples['trilith_model_batch_rows_bucket{le="1.0",model="m",version="1"}'] == "1.0"
    assert samples['trilith_model_batch_rows_bucket{le="4.0",model="m",version="1"}'] == "3.0"
    assert samples['trilith_model_batch_rows_sum{model="m",version="1"}'] == "7.0"
    assert float(samples['trilith_model_busy_seconds_total{instance="0",model="m",version="1"}']) > 0
    assert samples['nv_inference_first_response_histogram_ms_bucket{le="+Inf",model="m",version="1"}'] == "3.0"
    assert 'nv_inference_first_response_histogram_ms_bucket{le="2000.0",model="m",version="1"}' in samples


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 10), st.floats(0, 100))))
def test_what_is_observed_is_counted(batches):
    seen = ModelDistributions()
    for rows, requests, seconds in batches:
        seen.executed(requests=requests, rows=rows, input_s=seconds, infer_s=seconds, output_s=seconds)
        seen.busy(requests % 3, seconds)
    found = seen.snapshot()
    everything = sum(requests for _, requests, _ in batches)
    for buckets in (found.compute_input, found.compute_infer, found.compute_output):
        assert buckets.cumulative[-1] == everything
        assert buckets.total == pytest.approx(sum(requests * seconds for _, requests, seconds in batches))
    assert found.batch_rows.cumulative[-1] == len(batches)
    assert found.batch_rows.cumulative[: len(BATCH_BOUNDS)] == tuple(
        sum(rows <= bound for rows, _, _ in batches) for bound in BATCH_BOUNDS
    )
    assert sum(found.busy_s) == pytest.approx(sum(seconds for _, _, seconds in batches))


def test_priorities_are_bounded():
    seen = ModelDistributions()
    for priority in range(100):
        seen.queue(priority).observe(LATENCY_BOUNDS_S[0])
    found = seen.snapshot().queue
    assert len(found) == 32
    assert sum(buckets.cumulative[-1] for buckets in found.values()) == 100


def test_the_machine(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "statm").write_text("1000 10 5 1 0 50 0\n")
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable: 250 kB\n")
    (tmp_path / "stat").write_text("cpu 10 0 10 70 10 0 0 0 0 0\ncpu0 1 1\n")
    host = HostMetrics(tmp_path)
    samples = {snapshot.name: snapshot.samples[0][1] for snapshot in host()}
    assert samples["nv_cpu_memory_total_bytes"] == 1_024_000
    assert samples["nv_cpu_memory_used_bytes"] == 768_000
    assert samples["nv_cpu_utilization"] == pytest.approx(0.2)
    (tmp_path / "stat").write_text("cpu 40 0 20 90 50 0 0 0 0 0\n")
    assert {snapshot.name: snapshot.samples[0][1] for snapshot in host()}["nv_cpu_utilization"] == pytest.approx(0.4)


def test_a_machine_that_does_not_tell(tmp_path):
    (tmp_path / "stat").write_text("nonsense")
    assert list(HostMetrics(tmp_path)()) == []

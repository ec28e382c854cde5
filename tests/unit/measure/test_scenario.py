import pytest

from trilith.errors import InvalidConfig
from trilith.measure import read_scenario

FULL = """
url: http://h:1
slo: p95=80ms
seed: 4
timeout: 5s
targets:
  - {name: small, url: /read, weight: 3, data: [{x: 1}, small.json, '{"y": 2}'], headers: {X-Key: v}}
  - {url: "grpc://h:2", model: ocr, shapes: {IN: [1, 3]}, input_data: in.json}
phases:
  - {concurrency: 4}
  - {name: rush, rate: 50.5, duration: 2m, arrivals: constant, in_flight: 8, warmup: 1s}
  - {replay: times.csv, replay_speed: 2}
"""


def read(tmp_path, text, url=""):
    (tmp_path / "s.yaml").write_text(text)
    (tmp_path / "times.csv").write_text("0\n0.5\n1\n")
    return read_scenario(tmp_path / "s.yaml", url, duration_s=7.0, timeout_s=30.0)


def test_targets_and_phases_are_read(tmp_path):
    scenario = read(tmp_path, FULL)
    small, model = scenario.specs
    assert (small.url, small.name, small.weight, small.headers) == ("http://h:1/read", "small", 3, (("X-Key", "v"),))
    assert small.data == ('{"x": 1}', str(tmp_path / "small.json"), '{"y": 2}')
    assert (model.model, model.shapes, model.input_data) == ("ocr", {"IN": (1, 3)}, str(tmp_path / "in.json"))
    assert {small.timeout_s, model.timeout_s} == {5.0}
    assert scenario.slo.share == pytest.approx(0.95)
    calm, rush, replay = scenario.levels
    assert (calm.name, calm.concurrency, calm.duration_s, calm.mean_rate_per_s) == ("4", 4, 7.0, 0)
    assert (rush.name, rush.concurrency, rush.duration_s, rush.warmup_s) == ("rush", 8, 120, 1)
    assert rush.mean_rate_per_s == 50.5
    assert replay.mean_rate_per_s == pytest.approx(4)
    assert calm.due(1) is None
    assert next(rush.due(1)()) == 0
    assert read(tmp_path, FULL, "http://other:9/").specs[0].url == "http://other:9/read"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("targets: []", "targets"),
        ("phases: []", "targets"),
        ("targets: [{url: /read}]", r"targets\[0\].url '/read'.*whole URL"),
        ("targets: [{url: 'http://h/', wieght: 2}]", "weight"),
        ("targets: [{url: 'http://h/', weight: 0}]", "weight"),
        (
            "targets: [{url: 'http://h/'}]\nphases: [{duration: 1s}]",
            r"phases\[0\].*one of concurrency, rate and replay",
        ),
        ("targets: [{url: 'http://h/'}]\nphases: [{rate: 1, concurrency: 2}]", "one of"),
        ("targets: [{url: 'http://h/'}]\nphases: [{rate: 1, duration: 0}]", "longer than 0"),
        ("targets: [{url: 'http://h/'}]\nphases: [{rate: 1, duration: soon}]", "expected a time"),
        ("targets: [{url: 'http://h/'}]\nphases: [{replay: none.csv}]", "none.csv: cannot be read"),
        ("targets: [{url: 'http://h/'}]\nslo: fast", "slo"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, text, said):
    with pytest.raises(InvalidConfig, match=said):
        read(tmp_path, text)

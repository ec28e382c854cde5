"""The comparison with other systems: which rounds make a ratio, and what the models are. Nothing is started here."""

import json

import pytest
from benchmarks.learned_batch import Measured as Measurement
from benchmarks.peers.driver import Figures
from benchmarks.peers.identity import Variant, repository
from benchmarks.peers.registry import PEERS
from benchmarks.peers.rounds import Measured
from benchmarks.peers.workloads import OIP_HEAD_BYTES, WORKLOADS, lines_of_oip, page_as_oip

from trilith.runtime.repository import read_spec


def figures(rate, failed=0):
    return Figures(requests_per_s=rate, p50_s=0.1, p99_s=0.1, server_cpu_per_request_s=0.1, failed=failed)


def test_a_ratio_is_of_one_round_in_which_both_answered_all():
    measured = Measured(
        figures={
            "ours": {1: figures(10.0), 2: figures(20.0), 3: figures(30.0), 4: figures(40.0)},
            "theirs": {2: figures(10.0), 3: figures(10.0, failed=1), 4: figures(0.0)},
        }
    )
    assert measured.ratios("ours", "theirs") == [2.0]


def test_every_workload_has_a_peer_and_every_peer_a_workload_that_exists():
    assert {name for peer in PEERS.values() for name in peer.workloads} == set(WORKLOADS)


@pytest.mark.parametrize(
    ("backend", "variant"),
    [
        ("identity", Variant()),
        ("identity", Variant(largest=16, delay_ms=100)),
        ("onnxruntime", Variant(batched=False)),
        ("python", Variant(batched=False)),
        ("python", Variant(largest=16, delay_ms=100)),
    ],
)
def test_the_model_is_configured_as_it_says(backend, variant, tmp_path):
    folder = repository(backend, variant, tmp_path)
    assert repository(backend, variant, tmp_path) == folder
    spec = read_spec("identity", folder / "identity")
    assert (spec.backend, spec.max_batch_size, spec.queue.batching) == (backend, variant.largest, variant.batched)
    assert dict(spec.parameters) == ({"execute_delay_ms": "100"} if variant.delay_ms else {})
    assert [tensor.name for tensor in (*spec.inputs, *spec.outputs)] == ["INPUT0", "OUTPUT0"]


def test_a_model_that_changed_is_written_anew(tmp_path):
    folder = repository("python", Variant(), tmp_path)
    file = folder / "identity" / "1" / "model.py"
    kept = file.read_bytes()
    file.write_text("")
    assert repository("python", Variant(), tmp_path) == folder
    assert file.read_bytes() == kept


def test_learned_sizes_are_compared_with_the_best_size_of_all_rounds_and_not_with_the_luckiest():
    fixed = {1: [10.0, 90.0, 10.0], 32: [50.0, 40.0, 60.0]}
    measured = Measurement(fixed=fixed, learning=[], learned=[25.0, 40.0, 60.0], last=None)
    assert measured.best == 32
    assert measured.ratios(measured.learned) == [0.5, 1.0, 1.0]


def test_a_page_as_a_tensor_has_a_head_of_one_length_and_its_bytes_behind_it():
    for picture in (b"", b"\x89PNG", bytes(3_000_000)):
        body = page_as_oip(picture)
        (tensor,) = json.loads(body[:OIP_HEAD_BYTES])["inputs"]
        raw = body[OIP_HEAD_BYTES:]
        assert (tensor["datatype"], tensor["shape"]) == ("BYTES", [1, 1])
        assert tensor["parameters"]["binary_data_size"] == len(raw)
        assert raw == len(picture).to_bytes(4, "little") + picture


def test_lines_come_out_of_an_answer_of_triton():
    lines = [{"text": "Total due", "row": 3}]
    assert lines_of_oip(json.dumps({"outputs": [{"data": [json.dumps(lines)]}]}).encode()) == lines

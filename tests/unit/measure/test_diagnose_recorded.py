"""The decider on evidence that was recorded of the suite's services, on two cores that many others used too."""

from pathlib import Path

import msgspec
import pytest

from trilith.measure.diagnose import Evidence, decide

_LINES = (Path(__file__).parent / "recorded_evidence.jsonl").read_bytes().splitlines()
RECORDED = {line["case"]: line for line in map(msgspec.json.decode, _LINES)}
NOISY = "one instance too few"


@pytest.mark.parametrize("case", RECORDED)
def test_what_was_recorded_is_told_as_it_was(case):
    recorded = RECORDED[case]
    found = decide(msgspec.convert(recorded["evidence"], type=Evidence), noisiest=10.0 if case == NOISY else 1.0)
    assert (found.floor, found.stage) == (recorded["floor"], recorded["stage"])
    assert found.next_best is None or found.next_best.weight < 0.8


def test_the_one_that_was_recorded_in_too_much_noise_gets_no_verdict():
    found = decide(msgspec.convert(RECORDED[NOISY]["evidence"], type=Evidence))
    assert (found.floor, found.changes) == ("unknown", ())
    assert "too noisy" in found.sentence


def test_all_sixteen_are_there():
    assert len(RECORDED) == 16
    assert {line["floor"] for line in RECORDED.values()} == {"model", "python", "scale", "client", "nothing"}

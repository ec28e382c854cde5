"""The comparison of OCR servers, on small pages: that every target is started, read from and measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "ocr_compare.py"


def compared(folder: Path, *options: str) -> tuple[str, dict]:
    """The Markdown and the figures of a very short comparison of tiny pages."""
    short = ("--rows", "1", "--pages", "clean", "--rounds", "2", "--round-duration", "3", "--warmup", "0.2")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options, *short, "--concurrency", "2", "--json", str(folder / "found.json")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, json.loads((folder / "found.json").read_text())


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_server_by_hand_and_the_example_over_three_protocols_are_compared(tmp_path: Path):
    names = ["gRPC by hand, tuned", "Trilith, one method", "Trilith over gRPC", "Trilith"]
    text, found = compared(tmp_path, "--only", "steps", "--targets", *names)
    rows = [row for row in text.splitlines() if row.startswith("| ")][2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == names
    assert {row.split(" | ")[5] for row in rows} == {"0.0000"}, "all read the page without a mistake"
    for target in found["steps"]["targets"]:
        assert target["answers"] > 0, target
        assert target["failed"] == 0, target


@pytest.mark.full
@pytest.mark.timeout(300)
def test_the_example_runs_on_openvino_as_its_settings_say(tmp_path: Path):
    pytest.importorskip("openvino")
    text, found = compared(tmp_path, "--only", "steps", "--targets", "gRPC by hand, tuned", "Trilith, OpenVINO f32")
    assert "| Trilith, OpenVINO f32 | the backend of both models |" in text
    assert " | 0.0000 | " in text.split("Trilith, OpenVINO f32", 1)[1]
    assert all(target["answers"] for target in found["steps"]["targets"])

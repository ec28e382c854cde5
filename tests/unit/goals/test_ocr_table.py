"""The comparison of OCR servers as Markdown. Nothing is started here."""

from __future__ import annotations

from types import SimpleNamespace

from benchmarks.ocr_table import Known, conditions, table


def level(pages_per_s):
    return SimpleNamespace(requests_per_s=pages_per_s)


def report(*rounds):
    """Of the targets A, B, C: pages a second, round by round."""
    figures = zip(*rounds, strict=True)
    return SimpleNamespace(
        standings=[
            SimpleNamespace(name=name, figures={"throughput": values[0], "cpu": 1.5})
            for name, values in zip("ABC", figures, strict=True)
        ],
        rounds=[SimpleNamespace(order=(0, 1, 2), levels=[level(value) for value in each]) for each in rounds],
        concurrency=4,
        round_s=10.0,
        conditions={"cpu": "some", "cores": 2},
    )


KNOWN = [Known(about=text, error_rate=0.001) for text in ("first", "better", "best")]


def test_ratios_are_to_the_baseline_and_to_the_row_before():
    lines = table(report((1.0, 2.0, 6.0), (2.0, 4.0, 12.0)), KNOWN, with_steps=True).splitlines()
    assert lines[0] == "| | what is different | pages/s | CPU s a page | p50 s | error rate | x A | x the one before |"
    assert lines[2] == "| A | first | 1.00 | 1.50 | - | 0.0010 | 1 | |"
    assert lines[4].endswith("| 6.00 (6.00 to 6.00) | 3.00 (3.00 to 3.00) |")


def test_a_round_without_an_answer_counts_for_nothing_and_one_round_has_no_interval():
    lines = table(report((1.0, 0.0, 3.0), (1.0, 2.0, 0.0)), KNOWN, with_steps=True).splitlines()
    assert lines[3].endswith("| 2.00 (one round) | 2.00 (one round) |")
    assert lines[4].endswith("| 3.00 (one round) | - |"), "no round has both B and C"


def test_the_conditions_say_how_long_was_measured():
    said = conditions(report((1.0, 2.0, 3.0)), ["clean"])
    assert "some, 2 cores" in said
    assert "4 requests in flight" in said
    assert "1 rounds of 10 s" in said

"""The form of the log's lines, and how many there may be."""

import json
import logging
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.line_budget import LineBudget
from trilith.core.log_options import LogOptions
from trilith.core.logs import REQUESTS, _Budgets, formatter

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z [A-Z]+ [\w.]+: ")


def record(text, name="trilith.runtime", level=logging.INFO, error=None):
    made = logging.LogRecord(name, level, "", 0, text, None, None)
    if error is not None:
        try:
            raise error
        except Exception:  # noqa: BLE001
            made.exc_info = sys.exc_info()
    return made


texts = st.text(st.one_of(st.characters(), st.sampled_from("\n\r\x1b\x85\u2028\x00")))


@given(texts)
def test_no_text_can_look_like_a_line_of_its_own(text):
    made = formatter(LogOptions()).format(record(text))
    first, *others = made.split("\n")
    assert LINE.match(first)
    assert all(line.startswith("  ") for line in others)
    assert not set(made) & set("\r\x1b\x85\u2028\x00")


@given(texts)
def test_a_json_line_is_one_object_with_the_whole_text(text):
    made = formatter(LogOptions(format="json")).format(record(text))
    assert "\n" not in made
    found = json.loads(made)
    assert (found["level"], found["logger"]) == ("INFO", "trilith.runtime")
    assert found["text"] == text.encode(errors="replace").decode()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_belongs_to_its_line(form):
    made = formatter(LogOptions(format=form)).format(record("it failed", error=ValueError("no\nnumber")))
    if form == "json":
        assert json.loads(made)["traceback"].startswith("Traceback")
    else:
        assert all(line.startswith("  ") for line in made.split("\n")[1:])
        assert "  ValueError: no" in made


@given(st.lists(st.floats(0, 5), min_size=1, max_size=200))
def test_a_budget_lets_no_more_through_than_it_says_and_counts_the_rest(waits):
    budget, now, written, told = LineBudget(burst=3, per_s=1), 100.0, 0, 0
    for wait in waits:
        now += wait
        left_out = budget.take(now)
        if left_out is not None:
            written, told = written + 1, told + left_out
        assert written <= 3 + (now - 100.0) + 1e-6
    assert written + told <= len(waits)
    left_out = budget.take(now + 10)
    assert written + 1 + told + left_out == len(waits) + 1


def test_lines_about_requests_have_a_budget_for_each_level_and_others_have_none():
    budgets = _Budgets()
    flood = [record("bad client", name=REQUESTS) for _ in range(1000)]
    assert 20 <= sum(map(budgets.filter, flood)) < 100
    assert budgets.filter(record("a model failed", name=REQUESTS, level=logging.WARNING))
    assert all(budgets.filter(record("loaded")) for _ in range(1000))

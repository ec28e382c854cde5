"""The comparison of measured figures with the project's goals. Nothing is measured here."""

import ast
import io
import json
from pathlib import Path

from benchmarks.goals import GOALS, GROUPS, Goal, as_report, as_table, judge
from rich.console import Console


def test_every_goal_has_its_own_key_and_a_measurement():
    keys = [goal.key for goal in GOALS]
    assert len(set(keys)) == len(keys)
    assert all(goal.key.startswith(f"{goal.group}.") for goal in GOALS)
    source = ast.parse((Path(__file__).parents[3] / "benchmarks" / "measurements.py").read_text())
    (table,) = [
        node.value for node in source.body if isinstance(node, ast.AnnAssign) and node.target.id == "MEASUREMENTS"
    ]
    assert [key.value for key in table.keys] == list(GROUPS)


def test_a_bound_may_be_reached_from_either_side():
    most = Goal(key="a.a", group="a", text="", unit="us", bound=45.0)
    least = Goal(key="a.b", group="a", text="", unit="x", bound=2.5, at_least=True)
    assert [most.holds(value) for value in (44.9, 45.0, 45.1)] == [True, True, False]
    assert [least.holds(value) for value in (2.4, 2.5, 2.6)] == [False, True, True]


def test_the_median_is_compared():
    (verdict,) = judge(["echo"], {"echo.cpu": [20.0, 44.0, 300.0]})
    assert (verdict.median, verdict.outcome) == (44.0, "met")
    (verdict,) = judge(["echo"], {"echo.cpu": [20.0, 46.0, 300.0]})
    assert verdict.outcome == "missed"
    assert judge(["echo"], {})[0].outcome == "not measured"


def test_only_the_chosen_groups_are_judged():
    assert {verdict.goal.group for verdict in judge(["oip", "import"], {})} == {"oip", "import"}


def test_table_and_report_have_every_goal():
    verdicts = judge(GROUPS, {"echo.cpu": [44.0], "peers.granian": [0.7]})
    out = io.StringIO()
    Console(file=out, width=120, color_system=None).print(as_table(verdicts, "Goals"))
    text = out.getvalue()
    assert all(goal.text in text for goal in GOALS)
    assert [text.count(word) for word in (" met ", "missed", "not measured")] == [1, 1, len(GOALS) - 2]
    report = json.loads(json.dumps(as_report(verdicts, {"cores": 2}, {"ocr": "why"}, quick=True)))
    assert [goal["key"] for goal in report["goals"]] == [goal.key for goal in GOALS]
    assert report["goals"][0]["outcome"] == "met"
    assert report["goals"][-1]["median"] is None

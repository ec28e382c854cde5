import io
import json

import pytest
from rich.console import Console

from trilith.measure import TimelineSample, break_down, breakdown_table
from trilith.measure.breakdown_table import verdict


def page(models, latency_s=0.1, service="service Ocr.read"):
    """A request of 100 ms with calls of a model (queued, batched, infer; in ms) under a service from 10 to 90 ms."""
    children = [["model rec", 1, [["queued", a], ["batched", b], ["infer", c]], []] for a, b, c in models]
    under = [service, 2, [["received", 10], ["started", 10.1], ["infer", 90], ["encoded", 90.1]], children]
    root = ["gateway Ocr.read", 3, [["received", 0], ["admitted", 9], ["queued", 9], ["answered", 100]], [under]]
    return break_down([TimelineSample(json.dumps(in_seconds(root)).encode(), latency_s)])


def in_seconds(call):
    name, floor, stamps, children = call
    return [name, floor, [[stage, at / 1e3] for stage, at in stamps], [in_seconds(nested) for nested in children]]


def rows(breakdown, width=120):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(breakdown_table(breakdown, "Title"))
    lines = console.export_text().splitlines()
    assert all(len(line) <= width for line in lines)
    return [" ".join(line.split()) for line in lines if line.strip(" ─")]


SIDE_BY_SIDE = [(20, 20, 50), (20, 50, 80), (20, 50, 80)]


def test_floors_with_their_spans_and_the_whole():
    shown = rows(page(SIDE_BY_SIDE, latency_s=0.12))
    assert shown[:13] == [
        "Title",
        "floor, span share time calls per call p99",
        "1 runtime 50.0% 60ms",
        "model rec: queued -> batched beside 0 3 20ms 30ms",
        "model rec: batched -> infer 50.0% 60ms 3 30ms 30ms",
        "2 service 16.8% 20.1ms",
        "service Ocr.read: started -> infer 16.6% 19.9ms 1",
        "2 others 0.2% 200µs",
        "outside: network, sockets, client 16.7% 20ms",
        "3 orchestration 16.6% 19.9ms",
        "gateway Ocr.read: received -> admitted 7.5% 9ms 1",
        "gateway Ocr.read: queued -> answered 9.1% 10.9ms 1",
        "all 100.0% 120ms",
    ]
    assert " ".join(shown[13:]) == (
        "Each instant counts once: for what computes, or else for what waits. per call: of one call, whatever ran"
        " beside it. beside: it passed while something else computed."
    )


def test_single_calls_need_no_columns_of_theirs():
    assert rows(page([(20, 20, 50)]))[1] == "floor, span share time calls"


def test_where_there_is_no_room_the_stages_are_a_line_of_their_own():
    shown = rows(page(SIDE_BY_SIDE), width=62)
    assert "service Ocr.read: 19.9% 19.9ms 1" in shown
    assert "started -> infer" in shown


def test_brackets_in_a_name_are_text():
    assert "service [red]x: started -> infer 79.9% 79.9ms 1" in rows(page([], service="service [red]x"))


@pytest.mark.parametrize(
    ("models", "latency_s", "sentence"),
    [
        (
            SIDE_BY_SIDE,
            0.1,
            "Most of the time, 60%, goes to 1 runtime; there most to model rec, batched -> infer (60%).",
        ),
        (
            [(10, 60, 61)],
            0.2,
            "The largest part of the time, 50%, passes outside the server's stamps: network, kernel, client, or"
            " requests that wait to be read because the gateway is busy.",
        ),
        (
            [(11, 75, 76)],
            0.1,
            "Most of the time, 65%, goes to 1 runtime; there most to waiting in model rec, queued -> batched (64%).",
        ),
    ],
)
def test_the_sentence_names_floor_part_and_stage(models, latency_s, sentence):
    assert verdict(page(models, latency_s)) == sentence

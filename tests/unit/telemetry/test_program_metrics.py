"""Metrics of a program's own: declared by name, taken as changes, summed by one owner."""

import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidConfig
from trilith.telemetry import Counter, FamilyDelta, Gauge, Histogram, Instruments, Metrics, ProgramMetrics
from trilith.telemetry.exposition import render
from trilith.telemetry.instruments import MOST_SERIES


def shown(programs):
    metrics = Metrics()
    metrics.add_source(programs)
    return [line for line in render(metrics).decode().splitlines() if not line.startswith("#")]


def test_the_same_name_is_the_same_instrument():
    found = Instruments()
    pages = found.declare(Counter, "pages_total", "Pages.", ["lang"])
    assert found.declare(Counter, "pages_total", "Pages.", ("lang",)) is pages
    for kind, labels in ((Counter, ()), (Gauge, ("lang",))):
        with pytest.raises(InvalidConfig, match="pages_total"):
            found.declare(kind, "pages_total", "", labels)
    found.declare(Histogram, "sizes", "", (), [1, 2])
    with pytest.raises(InvalidConfig, match=r"declared before as a histogram .* bounds \[1.0, 2.0\]"):
        found.declare(Histogram, "sizes", "", (), [1, 3])


@pytest.mark.parametrize(
    ("kind", "name", "labels", "bounds", "said"),
    [
        (Counter, "pages", (), (), "ends in _total: pages_total"),
        (Gauge, "Pages", (), (), "lower-case"),
        (Gauge, "", (), (), "lower-case"),
        (Gauge, 3, (), (), "lower-case"),
        (Gauge, "trilith_pages", (), (), "are taken"),
        (Gauge, "a", ("b", "b"), (), "stands twice"),
        (Gauge, "a", ("replica",), (), "is taken"),
        (Gauge, "a", ("B",), (), "a label is lower-case"),
        (Gauge, "a", "lang", (), "labels are a list"),
        (Histogram, "a", (), (2, 1), "ascend"),
        (Histogram, "a", (), (1, float("inf")), "finite"),
    ],
)
def test_declarations_that_are_none(kind, name, labels, bounds, said):
    with pytest.raises(InvalidConfig, match=said):
        Instruments().declare(kind, name, "", labels, bounds)


def test_values_that_are_none():
    found = Instruments()
    counter = found.declare(Counter, "a_total", "", ["x"])
    gauge = found.declare(Gauge, "b", "", ())
    for wrong in (
        lambda: counter.add(-1, x=1),
        lambda: counter.add(float("nan"), x=1),
        lambda: gauge.set(float("inf")),
    ):
        with pytest.raises(ValueError, match="expected a finite number"):
            wrong()
    for wrong in (lambda: counter.add(), lambda: counter.add(y=1), lambda: gauge.set(1, x=2)):
        with pytest.raises(TypeError, match="takes"):
            wrong()
    assert found.take() == []


def test_changes_are_taken_once_and_gauges_told_again():
    found = Instruments()
    counter, gauge = found.declare(Counter, "a_total", "", ()), found.declare(Gauge, "b", "", ())
    counter.add(2)
    gauge.set(5)
    gauge.add(-1)
    assert [(each.name, each.series[0].value) for each in found.take()] == [("a_total", 2.0), ("b", 4.0)]
    assert found.take() == []
    assert [(each.name, each.series[0].value) for each in found.take(again=True)] == [("b", 4.0)]
    assert (counter.value(), gauge.value()) == (2.0, 4.0)


def test_who_sends_is_told_of_the_first_change_alone():
    found, told = Instruments(), []
    counter = found.declare(Counter, "a_total", "", ())
    counter.add()
    found.on_change(lambda: told.append(1))
    assert told == [1]
    counter.add()
    counter.add()
    assert told == [1]
    found.take()
    counter.add()
    assert told == [1, 1]


def test_labels_are_bounded():
    found = Instruments()
    counter = found.declare(Counter, "a_total", "", ["x"])
    for number in range(MOST_SERIES + 50):
        counter.add(x=number)
    [family] = found.take()
    assert len(family.series) == MOST_SERIES + 1
    assert {each.labels: each.value for each in family.series}["other",] == 50
    programs = ProgramMetrics()
    for replica_id in range(3):
        series = [msgspec.structs.replace(each, labels=(f"{replica_id}-{each.labels[0]}",)) for each in family.series]
        programs.add(replica_id, 1, [msgspec.structs.replace(family, series=series)])
    [snapshot] = programs()
    assert len(snapshot.samples) == 1001
    assert sum(value for _, value in snapshot.samples) == 3 * (MOST_SERIES + 50)


def test_threads_lose_nothing():
    found = Instruments()
    counter = found.declare(Counter, "a_total", "", ())
    histogram = found.declare(Histogram, "b", "", (), [1.0])
    taken = []

    def work():
        for _ in range(2000):
            counter.add()
            histogram.observe(0.5)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += found.take()
    taken += found.take()
    assert sum(s.value for family in taken if family.name == "a_total" for s in family.series) == 8000
    assert sum(s.counts[0] for family in taken if family.name == "b" for s in family.series) == 8000


ADDS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("xyz"), st.floats(0, 10)), max_size=30)


@given(ADDS, st.sets(st.integers(0, 2)))
def test_sums_are_those_of_all_replicas_and_outlive_them(adds, dead):
    programs = ProgramMetrics()
    replicas = [Instruments() for _ in range(3)]
    for replica_id, label, value in adds:
        found = replicas[replica_id]
        found.declare(Counter, "a_total", "", ["l"]).add(value, l=label)
        found.declare(Gauge, "b", "", ()).set(value)
        found.declare(Histogram, "c", "", (), [5.0]).observe(value)
        sent = msgspec.msgpack.decode(msgspec.msgpack.encode(found.take()), type=list[FamilyDelta])
        programs.add(replica_id, 1, sent)
    for replica_id in dead:
        programs.gone(replica_id)
    by_name = {snapshot.name: snapshot for snapshot in programs()}
    if not adds:
        assert by_name == {}
        return
    for (label,), total in by_name["a_total"].samples:
        assert total == pytest.approx(sum(value for _, at, value in adds if at == label))
    alive = {str(replica_id): value for replica_id, _, value in adds if replica_id not in dead}
    assert {labels[0]: value for labels, value in by_name["b"].samples} == alive
    [(_, buckets)] = by_name["c"].samples
    assert buckets.cumulative == (sum(value <= 5 for *_, value in adds), len(adds))


def test_declarations_that_contradict(caplog):
    programs, old, new = ProgramMetrics(), Instruments(), Instruments()
    old.declare(Counter, "a_total", "", ()).add()
    new.declare(Counter, "a_total", "", ("l",)).add(l="x")
    one, two = old.take(), new.take()
    programs.add(1, 1, one)
    programs.add(2, 1, two)
    programs.add(2, 1, two)
    assert shown(programs) == ["a_total 1.0"]
    assert [record.getMessage() for record in caplog.records] == [
        "what a replica counts as a_total is left out: it is a counter with the labels []"
    ]
    programs.add(2, 2, two)  # of a newer revision
    programs.add(1, 1, one)
    assert shown(programs) == ['a_total{l="x"} 1.0']

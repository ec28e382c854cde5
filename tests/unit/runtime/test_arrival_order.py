"""Answers in the order of arrival, against plain lists."""

from hypothesis import given
from hypothesis import strategies as st

from trilith.runtime.schedule import ArrivalOrder


def test_an_early_answer_waits_for_those_before_it():
    order = ArrivalOrder()
    for item in "abc":
        order.enter(item, 1)
    assert order.finish("b", 1, "B") == []
    assert order.finish("a", 1, "A") == [("a", "A"), ("b", "B")]
    assert order.finish("c", 1, "C") == [("c", "C")]
    assert len(order) == 0


def test_who_leaves_holds_up_nobody_and_gets_nothing():
    order = ArrivalOrder()
    order.enter("a", 1)
    order.enter("b", 1)
    order.enter("c", 2)
    assert order.finish("c", 2, "C") == [("c", "C")], "another priority waited"
    assert order.finish("b", 1, "B") == []
    assert order.leave("a", 1) == [("b", "B")]
    assert order.leave("a", 1) == []
    assert order.finish("a", 1, "A") == []


@given(st.lists(st.tuples(st.integers(1, 2), st.booleans()), max_size=12), st.data())
def test_against_lists(items, data):
    order = ArrivalOrder()
    came = {1: [], 2: []}
    for number, (priority, _) in enumerate(items):
        order.enter(number, priority)
        came[priority].append(number)
    left, done, given_out = set(), set(), []
    for number in data.draw(st.permutations(range(len(items)))):
        priority, leaves = items[number]
        released = order.leave(number, priority) if leaves else order.finish(number, priority, -number)
        (left if leaves else done).add(number)
        given_out += [item for item, outcome in released if outcome == -item]
        for queue in came.values():
            waits = [other for other in queue if other not in left]
            free = waits[: next((at for at, other in enumerate(waits) if other not in done), len(waits))]
            assert [item for item in given_out if item in queue] == free
    assert len(order) == 0
    assert sorted(given_out) == sorted(done)

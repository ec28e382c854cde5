"""Batches that nobody began: kept for others, but not for ever."""

from trilith.runtime.instances import Taken
from trilith.runtime.request_instances import MOST_GIVEN_BACK, GivenBack


def test_a_batch_is_given_back_so_often_and_no_more():
    given_back, batch = GivenBack(), Taken(["ticket"], 1.0)
    for _ in range(MOST_GIVEN_BACK):
        assert given_back.add(batch)
        batch = given_back.take()
        assert batch[:2] == (["ticket"], 1.0)
    assert not given_back.add(batch)
    assert given_back.take() is None


def test_what_became_of_one_batch_is_not_held_against_the_next():
    given_back = GivenBack()
    for _ in range(10 * MOST_GIVEN_BACK):  # each one may lie where the one before it lay in memory
        assert given_back.add(Taken(["ticket"], 1.0))
        given_back.take()


def test_what_is_thrown_out_is_told_once():
    given_back = GivenBack()
    given_back.add(Taken(["a"], 1.0))
    given_back.add(Taken(["b"], 2.0))
    assert len(given_back) == 2
    assert [taken.tickets for taken in given_back.clear()] == [["a"], ["b"]]
    assert given_back.clear() == []

"""An instance on the loop's thread: how much it runs in one turn of the loop. The loop is a list of callbacks."""

import pytest

from trilith.runtime.instances import InlineInstance, Rest, Taken


class Turns:
    """A loop whose turns are counted."""

    def __init__(self):
        self.soon = []

    def call_soon(self, callback):
        self.soon.append(callback)

    def turn(self):
        due, self.soon = self.soon, []
        for callback in due:
            callback()


class Pile:
    """Work: so many batches of one request."""

    def __init__(self, batches):
        self.left = batches

    def take(self, instance):
        if not self.left:
            return Rest(None)
        self.left -= 1
        return Taken([object()], 0.0)

    def rest(self, instance):
        return not self.left


class Nothing:
    """Runs nothing, and takes what it finished."""

    def __init__(self):
        self.finished = 0

    def run(self, backend, tickets, batched_at):
        return []

    def finish(self, executed):
        self.finished += 1


def instance_of(batches, *, grows):
    loop, nothing = Turns(), Nothing()
    instance = InlineInstance(loop, Pile(batches), nothing, None, nothing.finish, grows=grows)
    instance.wake()
    return loop, nothing, instance


def test_a_batch_that_may_grow_is_the_only_one_of_its_turn():
    loop, nothing, _ = instance_of(3, grows=True)
    for done in (1, 2, 3, 3):
        loop.turn()
        assert nothing.finished == done
    assert not loop.soon


@pytest.mark.parametrize("batches", [0, 1, 16, 17, 40])
def test_requests_that_nothing_can_join_go_many_in_a_turn_but_not_for_ever(batches):
    loop, nothing, _ = instance_of(batches, grows=False)
    turns = 0
    while loop.soon:
        before = nothing.finished
        loop.turn()
        turns += 1
        assert nothing.finished - before <= 16
    assert nothing.finished == batches
    assert turns == max(1, -(-batches // 16))


def test_it_stops_between_turns():
    loop, nothing, instance = instance_of(40, grows=False)
    loop.turn()
    instance.stop()
    loop.turn()
    assert nothing.finished == 16
    assert not loop.soon

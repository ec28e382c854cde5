"""A traceback is told once for a revision, and nothing is kept of revisions that are gone."""

from trilith.orchestration.revisions import Revisions
from trilith.orchestration.seen_failures import SeenFailures


def test_the_same_failure_of_a_revision_is_new_once():
    seen = SeenFailures()
    told = [
        seen.is_new(number, line, live={1, 2}) for number, line in ((1, "a"), (1, "a"), (1, "b"), (2, "a"), (1, "a"))
    ]
    assert told == [True, False, True, True, False]


def test_a_thousand_changes_that_fail_leave_nothing_behind():
    seen, revisions = SeenFailures(), Revisions()
    for _ in range(1000):
        number = revisions.begin()
        assert seen.is_new(number, f"change {number} cannot be imported", live=revisions.live)
        assert not seen.is_new(number, f"change {number} cannot be imported", live=revisions.live)
    assert len(seen) == 1

"""A watcher that was away does not take its own absence for the silence of others."""

from hypothesis import given
from hypothesis import strategies as st

from trilith.core.attention import Attention

EVERY_S = 1.0


@given(st.lists(st.floats(0.0, 2 * EVERY_S), min_size=1))
def test_who_looks_in_time_has_listened_since_the_first_look(pauses):
    attention, now = Attention(EVERY_S), 100.0
    assert attention.look(now) == 100.0
    for pause in pauses:
        now += pause
        assert attention.look(now) == 100.0


@given(st.floats(2 * EVERY_S + 0.6, 1e6))
def test_who_was_away_begins_anew(away_s):
    attention = Attention(EVERY_S)
    attention.look(0.0)
    assert attention.look(away_s) == away_s
    assert attention.look(away_s + EVERY_S) == away_s

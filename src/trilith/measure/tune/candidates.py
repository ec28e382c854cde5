"""Which configurations may be tried next. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from trilith.measure.tune.curves import BatchCap, Where, is_capped
from trilith.measure.tune.space import Configuration, Space

_MOST_LOOKED_AT: Final = 4000  # configurations for which a gain is worked out


def untried(
    space: Space,
    known: Collection[Configuration],
    caps: Mapping[tuple[int, Where], BatchCap],
    leader: Configuration | None,
) -> list[Configuration]:
    """Those that may be tried and were not; of a large space some, with the neighbours of the leader."""
    step = max(1, space.size // _MOST_LOOKED_AT)
    found = list(itertools.islice(space, len(known) % step, None, step))
    if step > 1 and leader is not None:
        found += _near(space, leader)
    return [each for each in found if each not in known and not is_capped(caps, each)]


def farthest(space: Space, known: Collection[Configuration], among: Sequence[Configuration]) -> Configuration:
    """The one whose nearest known one is farthest away."""
    if not known:
        return among[0]
    places = np.asarray([space.coordinates(each) for each in among])
    taken = np.asarray([space.coordinates(each) for each in known])
    # Corners are far from everything and rarely good: a place is worth less the farther it is from the middle.
    nearest = np.abs(places[:, None, :] - taken[None, :, :]).sum(axis=2).min(axis=1)
    return among[int(np.argmax(nearest - 0.25 * np.abs(places - 0.5).sum(axis=1)))]


def _near(space: Space, configuration: Configuration) -> list[Configuration]:
    """Those that differ from it by one knob."""
    return [
        (*configuration[:at], value, *configuration[at + 1 :])
        for at, each in enumerate(space.knobs)
        for value in each.values
        if value != configuration[at]
    ]

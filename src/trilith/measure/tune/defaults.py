"""What is tuned when nobody says what. Pure.

Rule 1: settings that change how fast it is answered and not what: replicas, batches, instances, threads.
Rule 2: a batched method that calls one model that batches is tuned together with it: the one's batches are the other's.
"""

from __future__ import annotations

from typing import Final

from trilith.config import setting_path
from trilith.measure.tune.declaration import Declared, DeclaredModel
from trilith.measure.tune.space import Knob, Space, Value, knob

_BATCHES: Final = (1, 2, 4, 8, 16, 32)


def default_space(declared: Declared, cores: int) -> Space:
    """The space of what a target declares, on a machine of so many cores.

    Raises:
        InvalidConfig: there is nothing to turn.
    """
    counts = list(dict.fromkeys((*(2**power for power in range(16) if 2**power <= cores), cores)))
    models = {model.name: model for model in declared.models}
    knobs: list[Knob] = []
    fed: set[str] = set()
    for service in declared.services:
        knobs.append(_knob(declared, counts, ("services", service.name, "replicas")))
        batching = [name for name in service.models if name in models and models[name].batches]
        for method in service.methods:
            if method.batched:
                places: list[tuple[str, ...]] = [("services", service.name, method.name, "max_batch")]
                if len(batching) == 1 and batching[0] not in fed:
                    places.append(("models", batching[0], "max_batch_size"))
                    fed.add(batching[0])
                knobs.append(_knob(declared, _BATCHES, *places))
    for model in declared.models:
        knobs += _of_model(declared, model, counts, batches=model.batches and model.name not in fed)
    return Space([each for each in knobs if len(each.values) > 1])


def _of_model(declared: Declared, model: DeclaredModel, counts: list[int], *, batches: bool) -> list[Knob]:
    found = [_knob(declared, counts, ("models", model.name, "instances"))]
    if model.threads:
        found.append(_knob(declared, counts, ("models", model.name, "session", "intra_op_threads")))
    if batches:
        found.append(_knob(declared, _BATCHES, ("models", model.name, "max_batch_size")))
    return found


def _knob(declared: Declared, values: tuple[int, ...] | list[int], *places: tuple[str, ...]) -> Knob:
    paths = [setting_path(place) for place in places]
    return knob(" + ".join(paths), list(values), current=current_value(declared, paths))


def current_value(declared: Declared, paths: list[str]) -> Value:
    """What a knob is at now: the first of its settings of which that is known."""
    return next((value for path in paths if (value := declared.values.get(path)) is not None), None)

import math

import pytest

from trilith.errors import InvalidConfig
from trilith.measure.tune.declaration import Declared, DeclaredMethod, DeclaredModel, DeclaredService
from trilith.measure.tune.defaults import default_space
from trilith.measure.tune.space import Space, knob

SPACE = Space(
    [
        knob("A.replicas", [4, 1, 2], current=3),
        knob("A.read.max_batch + models.m.max_batch_size", [1, 8], current=8),
        knob("models.m.session.optimization", ["none", "basic", "all"]),
    ]
)


def test_numbers_ascend_and_what_there_is_now_is_among_them():
    assert SPACE.knobs[0].values == (1, 2, 3, 4)
    assert SPACE.size == 4 * 2 * 3
    assert SPACE.start == (3, 8, "none")


def test_settings_that_are_turned_together_get_one_value():
    settings = SPACE.settings((2, 1, "all"))
    assert settings == {
        "A.replicas": 2,
        "A.read.max_batch": 1,
        "models.m.max_batch_size": 1,
        "models.m.session.optimization": "all",
    }
    assert SPACE.configuration(settings) == (2, 1, "all")
    assert SPACE.configuration({**settings, "A.replicas": 9}) is None
    assert SPACE.configuration({**settings, "models.m.max_batch_size": 8}) is None


def test_numbers_are_as_far_as_their_ranks_and_words_all_as_far():
    def distance(one, other):
        return math.dist(SPACE.coordinates(one), SPACE.coordinates(other))

    assert distance((1, 1, "all"), (4, 1, "all")) == pytest.approx(1)
    assert distance((1, 1, "all"), (2, 1, "all")) == pytest.approx(1 / 3)
    assert distance((1, 1, "all"), (1, 1, "none")) == pytest.approx(1)
    assert distance((1, 1, "basic"), (1, 1, "none")) == pytest.approx(1)


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("models.m.backend", True),
        ('models."v1.5".parameters.INFERENCE_PRECISION_HINT', True),
        ("models.m.session.denormal_as_zero", True),
        ("models.m.session.intra_op_threads", False),
        ("models.m.instances", False),
        ("backend.replicas", False),
        ("A.replicas + models.m.backend", True),
    ],
)
def test_settings_that_may_change_what_is_answered_are_known(path, changes):
    assert knob(path, [1, 2]).changes_outputs is changes
    assert knob(path, {"values": [1, 2], "changes_outputs": True}).changes_outputs


@pytest.mark.parametrize(
    ("path", "values", "said"),
    [
        ("A.replicas", [], "expected a list of values"),
        ("A.replicas", 2, "expected a list of values"),
        ("A.replicas", {"value": [1]}, "expected a list of values, or {values"),
        ("A.replicas", {"values": [1], "changes_outputs": "no"}, "changes_outputs must be true or false"),
        ("A.replicas", [1, 1], "a value stands twice"),
        ("A.replicas", [[1]], "values must be numbers"),
        ("A.replicas", [float("nan")], "values must be numbers"),
        ("replicas", [1], "says whose setting it is"),
    ],
)
def test_what_is_no_knob(path, values, said):
    with pytest.raises(InvalidConfig) as raised:
        knob(path, values)
    assert said in raised.value.message


def test_what_is_no_space():
    with pytest.raises(InvalidConfig, match="there is nothing to tune"):
        Space([])
    with pytest.raises(InvalidConfig, match="stands twice among what is tuned"):
        Space([knob("A.b + A.c", [1, 2]), knob("A.c", [1, 2])])
    with pytest.raises(InvalidConfig, match="configurations are too many"):
        Space([knob(f"A.x{at}", list(range(100))) for at in range(3)])


def test_defaults_turn_replicas_batches_instances_and_threads():
    declared = Declared(
        services=[
            DeclaredService(name="Page", methods=[DeclaredMethod(name="read", path="/read", batched=False)], models=[]),
            DeclaredService(
                name="Line", methods=[DeclaredMethod(name="read", path="/read", batched=True)], models=["rec"]
            ),
        ],
        models=[
            DeclaredModel(name="det", folder="det", batches=False, threads=True),
            DeclaredModel(name="rec", folder="rec", batches=True, threads=False),
        ],
        values={"Line.read.max_batch": 4, "models.rec.instances": 2, "Page.replicas": 1},
    )
    space = default_space(declared, 2)
    assert [(each.path, each.values, each.current) for each in space.knobs] == [
        ("Page.replicas", (1, 2), 1),
        ("Line.replicas", (1, 2), None),
        ("Line.read.max_batch + models.rec.max_batch_size", (1, 2, 4, 8, 16, 32), 4),
        ("models.det.instances", (1, 2), None),
        ("models.det.session.intra_op_threads", (1, 2), None),
        ("models.rec.instances", (1, 2), 2),
    ]
    assert not any(each.changes_outputs for each in space.knobs)

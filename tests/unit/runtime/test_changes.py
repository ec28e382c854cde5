"""What follows from a change of files, without files."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.load_options import ControlMode
from trilith.errors import UnknownReference
from trilith.runtime.changes import Changes, Reload, Standing, at_start, decide, plan_reload
from trilith.runtime.spec import InstanceConfig, ModelSpec, VersionPolicy

LISTINGS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", "3"]))


def test_what_is_loaded_at_the_start():
    assert at_start(["a", "b"], ControlMode.NONE, None) == ("a", "b")
    assert at_start(["a", "b"], ControlMode.POLL, None) == ("a", "b")
    assert at_start(["a", "b"], ControlMode.EXPLICIT, None) == ()
    assert at_start(["a", "b"], ControlMode.EXPLICIT, ["b", "b"]) == ("b",)
    assert at_start(["a", "b"], ControlMode.EXPLICIT, ["*"]) == ("a", "b")
    with pytest.raises(UnknownReference, match="model 'c' is in none of the repositories; they hold a, b"):
        at_start(["a", "b"], ControlMode.EXPLICIT, ["c"])
    with pytest.raises(UnknownReference, match="and 5 more"):
        at_start([str(at) for at in range(25)], ControlMode.EXPLICIT, ["c"])


@given(LISTINGS, LISTINGS)
def test_polling_follows_the_files(before, now):
    changes = decide(before, now, ControlMode.POLL)
    world = dict(before)
    for name in changes.unload:
        del world[name]
    for name in changes.load:
        assert world.get(name) != now[name]
        world[name] = now[name]
    assert world == now
    assert decide(now, now, ControlMode.POLL) == Changes()


@given(LISTINGS, LISTINGS, st.sampled_from([ControlMode.NONE, ControlMode.EXPLICIT]))
def test_without_polling_files_decide_nothing(before, now, mode):
    assert decide(before, now, mode) == Changes()


SPEC = ModelSpec(name="m", backend="echo", versions=VersionPolicy(latest=0))


def standing(spec=SPEC, shared=(), **versions):
    return Standing(
        spec=spec, shared=shared, versions={name[1:]: ((name, stamp, 0, 0),) for name, stamp in versions.items()}
    )


def test_a_version_that_appears_or_vanishes_leaves_the_others_alone():
    before = standing(v1=1, v2=1)
    assert plan_reload(before, standing(v1=1, v2=1, v3=1), ["1", "2"]) == Reload(load=("3",), keep=("1", "2"))
    assert plan_reload(before, standing(v2=1), ["1", "2"]) == Reload(load=(), keep=("2",))
    assert plan_reload(before, standing(v1=1, v2=2), ["1", "2"]) == Reload(load=("2",), keep=("1",))
    latest = replace(SPEC, versions=VersionPolicy())
    assert plan_reload(before, standing(latest, v2=1), ["1", "2"]) == Reload(load=(), keep=("2",))


def test_instances_alone_are_changed_in_place():
    more = replace(SPEC, instances=InstanceConfig(count=3))
    assert plan_reload(standing(v1=1), standing(more, v1=1), ["1"]) == Reload(load=(), keep=("1",), resize=True)
    apart = replace(SPEC, instances=InstanceConfig(count=3, share=False))
    assert plan_reload(standing(v1=1), standing(apart, v1=1), ["1"]) == Reload(load=("1",))


def test_what_concerns_all_versions_reloads_all():
    files = (("labels.txt", 3, 0, 0),)
    assert plan_reload(standing(v1=1), standing(shared=files, v1=1), ["1"]) == Reload(load=("1",))
    assert plan_reload(standing(v1=1), standing(replace(SPEC, pure=False), v1=1), ["1"]) == Reload(load=("1",))
    assert plan_reload(None, standing(v1=1), []) == Reload(load=("1",))


@given(st.dictionaries(st.sampled_from(["v1", "v2", "v3"]), st.integers(0, 1)), st.data())
def test_every_version_is_kept_or_loaded(now, data):
    before = data.draw(st.dictionaries(st.sampled_from(["v1", "v2", "v3"]), st.integers(0, 1)))
    serving = data.draw(st.sets(st.sampled_from([name[1:] for name in before]))) if before else set()
    step = plan_reload(standing(**before), standing(**now), serving)
    assert sorted(step.keep + step.load) == sorted(name[1:] for name in now)
    assert all(version in serving and before[f"v{version}"] == now[f"v{version}"] for version in step.keep)


def test_who_asks_for_a_reload_of_what_has_not_changed_gets_one():
    assert plan_reload(standing(v1=1), standing(v1=1), ["1"]) == Reload(load=("1",))

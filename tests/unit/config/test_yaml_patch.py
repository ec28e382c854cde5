import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.config import dump_yaml, parse_yaml, patched
from trilith.errors import InvalidConfig

MODEL = """# Weights: Apache-2.0
backend: onnxruntime
max_batch_size: 4     # larger ones gain nothing
instances: 2          # one a core
outputs:
  - name: y
    reduce: argmax      # the rest need not leave
session:
  intra_op_threads: 1
  spinning: false   # idle threads rest

# the end
"""


def test_a_value_changes_and_its_comment_stays():
    assert patched(MODEL, ["instances"], 1) == MODEL.replace("instances: 2 ", "instances: 1 ")
    assert patched(MODEL, ["session", "intra_op_threads"], 8) == MODEL.replace("threads: 1", "threads: 8")


def test_what_is_new_stands_behind_its_neighbours():
    changed = patched(MODEL, ["session", "optimization"], "basic")
    assert changed == MODEL.replace("rest\n", 'rest\n  optimization: "basic"\n')
    changed = patched(MODEL, ["batching", "max_wait_ms"], 2.5)
    assert changed == MODEL.replace("rest\n", "rest\nbatching:\n  max_wait_ms: 2.5\n")


@pytest.mark.parametrize(
    ("text", "keys", "value", "expected"),
    [
        ("", ["services", "A", "replicas"], 2, "services:\n  A:\n    replicas: 2\n"),
        ("# nothing yet\n", ["a"], None, "# nothing yet\na: null\n"),
        ("a: {b: 1, c: 2}  # so\n", ["a", "b"], 3, "a: {b: 3, c: 2}  # so\n"),
        ("a: {b: 1}\n", ["a", "d", "e"], True, "a: {b: 1, d: {e: true}}\n"),
        ("a:\nb: 1\n", ["a", "c"], 2, "a: {c: 2}\nb: 1\n"),
        ("a: {}\n", ["a", "v1.5"], 2, 'a: {"v1.5": 2}\n'),
        ("a: 1", ["b"], 2, "a: 1\nb: 2"),
        ("batching: false\n", ["batching", "max_wait_ms"], 2, "batching: {max_wait_ms: 2}\n"),
        ("instances: {count: 2}\n", ["instances"], 3, "instances: 3\n"),
        ("a:\n  b: 1\n  c: 2\nd: 4\n", ["a"], 0, "a: 0\nd: 4\n"),
    ],
)
def test_one_place_of_a_text(text, keys, value, expected):
    assert patched(text, keys, value) == expected


def test_what_is_no_mapping_or_cannot_be_changed_alone_is_refused():
    with pytest.raises(InvalidConfig, match="expected a mapping"):
        patched("- 1\n", ["a"], 1, source="f.yaml")
    with pytest.raises(InvalidConfig, match=r"f\.yaml: b\.x: cannot be changed in place"):
        patched("a: &s {x: 1}\nb: *s\n", ["b", "x"], 2, source="f.yaml")


keys = st.sampled_from(["a", "b", "c"])
trees = st.recursive(
    st.integers(0, 9) | st.booleans() | st.sampled_from(["t", "two words", "#no"]),
    lambda inner: st.dictionaries(keys, inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=40)
@given(st.dictionaries(keys, trees, max_size=3), st.lists(keys, min_size=1, max_size=3), st.integers(10, 20))
def test_nothing_else_changes(values, path, value):
    text = "# kept\n" + dump_yaml(values)
    changed = patched(text, path, value)
    expected = values = parse_yaml(text, source="t") or {}
    place = expected
    for key in path[:-1]:
        if not isinstance(place.get(key), dict):
            place[key] = {}
        place = place[key]
    place[path[-1]] = value
    assert parse_yaml(changed, source="t") == expected
    assert changed.startswith("# kept\n")

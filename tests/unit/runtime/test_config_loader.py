"""Text to frozen values: each error says where."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.config import convert, load_yaml, parse_yaml
from trilith.errors import InvalidConfig, UnknownReference


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_size: int = 1
    names: dict[str, int] = {}


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    inner: Inner = Inner()
    several: list[Inner] = []
    either: int | Inner = 1


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"inner": {"max_siz": 1}}, "m.yaml: inner.max_siz: unknown key; did you mean 'max_size'?"),
        ({"q": 1}, "m.yaml: q: unknown key; expected one of either, inner, several"),
        ({"several": [{}, {"max_size": "a"}]}, "m.yaml: several[1].max_size: Expected `int`, got `str`"),
        ({"several": [{"maxsize": 1}]}, "m.yaml: several[0].maxsize: unknown key; did you mean 'max_size'?"),
        ({"either": {"z": 1}}, "m.yaml: either.z: unknown key; expected one of max_size, names"),
        ({"inner": {"names": {"a": "b"}}}, "m.yaml: inner.names[*]: Expected `int`, got `str`"),
        (5, "m.yaml: Expected `object`, got `int`"),
    ],
)
def test_a_wrong_key_is_named_with_its_path(value, says):
    with pytest.raises(InvalidConfig) as caught:
        convert(value, Outer, source="m.yaml")
    assert caught.value.message == says


def test_a_root_goes_before_the_path():
    with pytest.raises(InvalidConfig, match=r"^app.yaml: models\.ocr\.inner\.max_size: Expected"):
        convert({"inner": {"max_size": "a"}}, Outer, source="app.yaml", root="models.ocr")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "line 1, column 5"),
        ("a: 1\nb: 2\na: 2", "line 3, column 1: the key 'a' stands twice"),
        ("a: {b: 1, b: 2}", "the key 'b' stands twice"),
        ("a: {b: {c: 1, c: 2}}", "line 1, column 15: the key 'c' stands twice"),
        ('{"a": 1, "b": 2, "a": 3}', "line 1, column 18: the key 'a' stands twice"),
        ("~: 1\nnull: 2", "line 2, column 1: the key None stands twice"),
        ("a: &x {b: 1}\nc: {<<: *x, <<: *x}", "line 2, column 13: the key '<<' stands twice"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: 1\nx: 2020-13-45", "line 2, column 4: '2020-13-45' is no timestamp: month must be in 1..12"),
        ("x: 1" + "0" * 5000, r"line 1, column 4: '1000.* is no int: Exceeds the limit"),
        ("x: [1, !!int foo]", "line 1, column 8: 'foo' is no int: invalid literal"),
        ("x: !!int ''", "line 1, column 4: '' is no int"),
        ("x: !!float foo", "line 1, column 4: 'foo' is no float"),
        ("x: !!bool foo", "line 1, column 4: 'foo' is no bool"),
        ("x: !!timestamp foo", "line 1, column 4: 'foo' is no timestamp"),
        ("!!int foo: 1", "line 1, column 1: 'foo' is no int"),
        ("a: &x [*x]", "line 1, column 4: found unconstructable recursive node"),
        ("[" * 5_000, "line 1, column 65: it is nested too deeply; at most 64 levels"),
        ("- " * 5_000, "nested too deeply"),
    ],
)
def test_wrong_yaml_is_refused_with_its_place(text, says):
    with pytest.raises(InvalidConfig, match=f"^m.yaml: .*{says}"):
        parse_yaml(text, source="m.yaml")


@given(st.text(), st.sampled_from(["", "!!int ", "!!float ", "!!bool ", "!!timestamp ", "!!binary ", "!!set ", "? "]))
def test_a_text_is_yaml_or_is_refused(text, tag):
    with contextlib.suppress(InvalidConfig):
        parse_yaml(f"a: {tag}{text}", source="m.yaml")


def test_the_keys_of_another_mapping():
    text = "a: &a {b: 1, c: 2}\nd: {<<: *a, c: 3}\ne: {<<: [*a, {f: 4}]}"
    assert parse_yaml(text, source="m.yaml") == {
        "a": {"b": 1, "c": 2},
        "d": {"b": 1, "c": 3},
        "e": {"b": 1, "c": 2, "f": 4},
    }


def test_files(tmp_path):
    path = tmp_path / "m.yaml"
    with pytest.raises(UnknownReference, match="cannot be read"):
        load_yaml(path, Outer)
    path.write_text("")
    assert load_yaml(path, Outer) == Outer()
    path.write_text("either: {max_size: 3}")
    assert load_yaml(path, Outer) == Outer(either=Inner(max_size=3))
    path.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(InvalidConfig, match="UTF-8"):
        load_yaml(path, Outer)

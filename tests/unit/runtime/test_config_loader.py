"""Text to frozen values: each error says where."""

import msgspec
import pytest

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
        ("a: !!python/object:os.system x", "could not determine a constructor"),
    ],
)
def test_wrong_yaml_is_refused_with_its_place(text, says):
    with pytest.raises(InvalidConfig, match=f"^m.yaml: .*{says}"):
        parse_yaml(text, source="m.yaml")


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

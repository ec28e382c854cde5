"""What strangers may know of a failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import SetupError
from trilith.runtime.loading import LoadFailed
from trilith.runtime.public_cause import MOST_CHARACTERS, public_cause

NAMES = st.text(st.sampled_from("abcXYZ019_.-"), min_size=1, max_size=8).filter(lambda name: name.strip("."))
WORDS = st.text(st.sampled_from("abc 019'\":,()[]-"), max_size=20)


@pytest.mark.parametrize(
    ("whole", "shown"),
    [
        ("/srv/models/ocr/1/model.onnx: cannot load", "ocr/1/model.onnx: cannot load"),
        ("/srv/ocr/models/ocr/config.pbtxt: 1:1 : no field", "ocr/config.pbtxt: 1:1 : no field"),
        ("/srv/models: not here", "models: not here"),
        ("ValueError: wrong\n\nAt:\n  /srv/models/ocr/1/model.py(3): initialize", "ValueError: wrong"),
        ("worker died: exit code 7; its last words were:\nTraceback", "worker died: exit code 7"),
        ("[Errno 2] No such file: '/usr/lib/secret/x.so'", "[Errno 2] No such file: 'x.so'"),
        ("see https://docs.example/a/b for more", "see https://docs.example/a/b for more"),
        ("expected shape [-1, 3] and 1/2 or a//b", "expected shape [-1, 3] and 1/2 or a//b"),
        ("the model file '../../x' must", "the model file '../../x' must"),
        ("", ""),
    ],
)
def test_what_is_left_of_a_cause(whole, shown):
    assert public_cause(whole, "ocr") == shown


@given(before=WORDS, folders=st.lists(NAMES, min_size=1, max_size=5), name=NAMES, after=WORDS)
def test_no_path_of_the_server_is_left(before, folders, name, after):
    folder = "/" + "/".join(folders)
    shown = public_cause(f"{before} {folder}/{name}: {after}", "ocr")
    assert f"{folder}/" not in shown
    assert name in shown


@given(st.text(max_size=2000), st.text(max_size=5))
def test_whatever_it_is_it_is_one_short_line(text, model):
    shown = public_cause(text, model)
    assert "\n" not in shown
    assert len(shown) <= MOST_CHARACTERS + 4
    assert len(public_cause(shown, model)) <= MOST_CHARACTERS + 4


def test_of_several_versions_each_has_its_own_first_line():
    failed = LoadFailed("m", {"1": SetupError("/srv/m/1/x: no\nAt: here"), "2": SetupError("never")})
    assert failed.public == (
        "load failed for model 'm': version 1 is at UNAVAILABLE state: m/1/x: no; "
        "version 2 is at UNAVAILABLE state: never;"
    )
    assert "/srv/m/1/x: no\nAt: here" in failed.message

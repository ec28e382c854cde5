"""What a scope opens."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidConfig
from trilith.orchestration.access.scopes import Glob, Scopes, checked_scope

letters = st.text(alphabet="ab*", max_size=8)


@given(letters, st.text(alphabet="ab", max_size=12))
def test_a_glob_matches_what_its_regular_expression_does(pattern, text):
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert Glob(pattern).matches(text) is expected


def test_no_pattern_takes_long():
    begun = time.process_time()
    assert not Glob("*a" * 100 + "b").matches("a" * 16_000)
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    ("scope", "method", "opens"),
    [
        ("Ocr", "Ocr.read", True),
        ("Ocr", "Ocr2.read", False),
        ("Ocr", "Ocr", True),
        ("Ocr.read", "Ocr.read", True),
        ("Ocr.read", "Ocr.read_all", False),
        ("Ocr.read_*", "Ocr.read_all", True),
        ("*.read", "Ocr.read", True),
        ("a.b", "a.b.c", True),  # names of services may have dots
        ("model:*", "Ocr.read", False),
        ("/*", "Ocr.read", False),
        ("*", "Ocr.read", True),
        ("Ocr", "Ocr./ui", True),
        ("Ocr./ui", "Ocr./ui", True),
        ("Ocr./ui", "Ocr./ui.old", False),
        ("Ocr./ui", "Ocr./uis", False),
        ("Ocr./ui", "Ocr.read", False),
        ("Ocr./*", "Ocr./ui/two", True),
        ("Ocr./*", "Ocr.read", False),
        ("Ocr./", "Ocr./ui", False),
    ],
)
def test_methods(scope, method, opens):
    assert Scopes([scope]).method(method) is opens


@pytest.mark.parametrize(
    ("scope", "model", "opens"),
    [
        ("model:ocr-*", "ocr-rec", True),
        ("model:ocr-*", "other", False),
        ("model:*", "", True),
        ("model:ocr-*", "", False),
        ("Ocr", "Ocr", False),
        ("/v2/*", "ocr-rec", False),
        ("*", "x", True),
    ],
)
def test_models(scope, model, opens):
    assert Scopes([scope]).model(model) is opens


@pytest.mark.parametrize(
    ("scope", "path", "opens"),
    [
        ("/v2/*", "/v2/models/a/infer", True),
        ("/v2/*", "/v2", False),
        ("/chat/*", "/chat/a", True),
        ("/chat/*", "/chat/../admin", False),
        ("/chat/*", "/chat/./admin", False),
        ("/chat/*", "/chat/%2e%2E/admin", False),
        ("/chat/*", "/chat/.%2e", False),
        ("/chat/*", "/chat//admin", False),
        ("/chat/*", "/chat\\..\\admin", False),
        ("/chat/*", "/chat/..%2fadmin", False),
        ("/chat/*", "/chat/..;/admin", False),
        ("/chat/*", "/chat/..a", True),
        ("/chat/*", "/chatter", False),
        ("*", "/chat/../admin", True),
        ("Ocr", "/Ocr", False),
    ],
)
def test_paths(scope, path, opens):
    assert Scopes([scope]).path(path) is opens


@given(st.lists(st.sampled_from(["Ocr", "model:a", "/v2/x"]), max_size=3), st.text(max_size=20))
def test_no_scope_opens_what_it_does_not_name(words, text):
    scopes = Scopes(words)
    assert not scopes.path("/admin" + text)
    assert not scopes.method("Admin" + text)
    assert not scopes.model("b" + text)
    assert not scopes.everything


@pytest.mark.parametrize("word", ["", "a b", "Ocr.read()", "models:x", "model:", "é", "x" * 301, "a/b", "\n"])
def test_words_that_mean_nothing(word):
    with pytest.raises(InvalidConfig, match=r"^here: a scope is"):
        checked_scope(word, "here")

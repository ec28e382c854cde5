"""The file of keys: what it may hold, and what is said of what it may not."""

import contextlib
import datetime
import hashlib
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidConfig
from trilith.orchestration.access import new_key, read_key_file, read_key_text

DIGEST = hashlib.sha256(b"key").hexdigest()
GOOD = f"""
public: [/docs]
keys:
  - name: scanner
    sha256: {DIGEST}
    scopes: [Ocr.read, "model:ocr-*"]
    expires: 2027-01-31
    requests_per_s: 20
    burst: 40
    concurrency: 8
    max_body_mb: 0.5
  - name: probe
    certificate: probe.example.org
    scopes: ["*"]
    expires: 2027-01-31T12:00:00+01:00
    requests_per_s: 2.5
"""


def test_a_file():
    ring = read_key_text(GOOD, source="keys.yaml")
    scanner, probe = ring.rules
    assert ring.public == ("/docs",)
    assert (scanner.name, scanner.sha256, scanner.scopes) == ("scanner", DIGEST, ("Ocr.read", "model:ocr-*"))
    assert scanner.expires_at == datetime.datetime(2027, 1, 31, tzinfo=datetime.UTC).timestamp()
    assert (scanner.limits.burst, scanner.limits.concurrency, scanner.limits.max_body_bytes) == (40, 8, 512 << 10)
    assert (probe.certificate, probe.limits.burst) == ("probe.example.org", 3)
    assert probe.expires_at == datetime.datetime(2027, 1, 31, 11, tzinfo=datetime.UTC).timestamp()


@pytest.mark.parametrize("text", ["", "# nothing", "keys: []", "{}"])
def test_a_file_without_keys_opens_nothing(text):
    assert read_key_text(text, source="keys.yaml").rules == ()


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("keys: [", r"^keys.yaml: line 1, column 8: "),
        ("- a", "expected 'keys:' and a list of them, got list"),
        ("just text", "got str"),
        ("keys:\n  a: 1", r"line 1: keys: Expected `array`, got `object`"),
        (changed("name: scanner", "nam: scanner"), r"line 4: keys\[0\]"),
        (changed("name: scanner", "name: 5"), r"line 4: keys\[0\].name: Expected `str`, got `int`"),
        (changed("name: scanner", "name: a b"), r"line 4: keys\[0\].name: expected 1 to 64 letters"),
        (changed(DIGEST, "secret-key"), r"line 5: keys\[0\].sha256: expected the 64 hexadecimal digits"),
        (changed(f"sha256: {DIGEST}", 'sha256: ""'), r"line 4: keys\[0\]: expected either .* got neither"),
        (changed("scopes: [Ocr.read, ", "certificate: x\n    scopes: [Ocr.read, "), r"keys\[0\]: .* got both"),
        (changed("Ocr.read", "Ocr read"), r"line 6: keys\[0\].scopes\[0\]: a scope is"),
        (changed('[Ocr.read, "model:ocr-*"]', "[]"), r"line 6: keys\[0\].scopes: Expected `array` of length >= 1"),
        (changed("expires: 2027-01-31\n", "expires: soon\n"), r"line 7: keys\[0\].expires: expected a day"),
        (changed("expires: 2027-01-31\n", "expires: 5\n"), r"line 7: keys\[0\].expires: expected a day"),
        (changed("requests_per_s: 20", "requests_per_s: 0"), r"line 8: keys\[0\].requests_per_s: .*0"),
        (changed("requests_per_s: 20", "requests_per_s: .nan"), r"line 8: keys\[0\].requests_per_s"),
        (changed("burst: 40", "burst: 0"), r"line 9: keys\[0\].burst"),
        (changed("    requests_per_s: 20\n", ""), r"line 8: keys\[0\].burst: it is one of requests_per_s"),
        (changed("concurrency: 8", "concurrency: x"), r"line 10: keys\[0\].concurrency: must be an integer"),
        (changed("name: probe", "name: scanner"), r"line 12: keys\[1\].name: keys\[0\] has it too"),
        (changed("certificate: probe.example.org", f"sha256: {DIGEST}"), r"line 13: keys\[1\].sha256: keys\[0\] has"),
        (changed("[/docs]", "[/docs, a b]"), r"line 2: public\[1\]: a scope is"),
        (changed("public:", "puplic:"), r"line 2: puplic: unknown key; did you mean 'public'"),
        (changed("name: scanner", "name: scanner\n    name: other"), "the key 'name' stands twice"),
        ("keys: &a [*a]", "keys"),
        ("a: " + "[" * 2000, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text, words):
    with pytest.raises(InvalidConfig, match=words) as caught:
        read_key_text(text, source="keys.yaml")
    assert caught.value.message.startswith("keys.yaml: ")
    assert "secret-key" not in caught.value.message


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InvalidConfig):  # and nothing else
        read_key_text("keys:\n" + text, source="keys.yaml")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidConfig, match="cannot be read: No such file"):
        read_key_file(tmp_path / "none.yaml")
    with pytest.raises(InvalidConfig, match="cannot be read: Is a directory"):
        read_key_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"keys: \xff")
    with pytest.raises(InvalidConfig, match="must be UTF-8 text"):
        read_key_file(tmp_path / "latin.yaml")


def test_a_new_key_is_found_by_its_digest():
    key, entry = new_key(
        "ann@example.org",
        scopes=["Ocr.read", "model:*"],
        expires=datetime.date(2030, 1, 2),
        requests_per_s=5,
        burst=None,
        concurrency=2,
        max_body_mb=1.5,
    )
    assert re.fullmatch(r"trilith_[A-Za-z0-9_-]{43}", key)
    assert key not in entry
    [rule] = read_key_text(f"keys:\n{entry}", source="keys.yaml").rules
    assert rule.sha256 == hashlib.sha256(key.encode()).hexdigest()
    assert rule.scopes == ("Ocr.read", "model:*")
    assert (rule.limits.requests_per_s, rule.limits.burst, rule.limits.concurrency) == (5, 5, 2)
    assert yaml.safe_load(entry)[0]["expires"] == "2030-01-02"
    assert new_key("a", scopes=["*"])[0] != new_key("a", scopes=["*"])[0]


@pytest.mark.parametrize(
    ("name", "scopes", "limits"), [("a b", ["*"], {}), ("a", [], {}), ("a", ["a b"], {}), ("a", ["*"], {"burst": 3})]
)
def test_a_new_key_that_could_not_be_read(name, scopes, limits):
    with pytest.raises(InvalidConfig):
        new_key(name, scopes=scopes, **limits)

"""A key that is added to a file, in whatever layout the file has."""

import pytest

from trilith.cli.keys import _with_entry
from trilith.orchestration import new_key, read_key_text

ONE = "- {name: one, sha256: '" + "0" * 64 + "', scopes: ['*']}\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["new"]),
        ("# ours", ["new"]),
        ("keys: []\n", ["new"]),
        ("keys:\n", ["new"]),
        ("keys:  []   # none yet\npublic: [/docs]\n", ["new"]),
        (f"keys:\n  {ONE}", ["one", "new"]),
        (f"keys:\n{ONE}", ["one", "new"]),
        (f"keys:\n      {ONE}\n# the end\n", ["one", "new"]),
        (f"keys:\n  # first\n  {ONE}\npublic: [/docs]\n", ["one", "new"]),
        (f"public: [/docs]\nkeys:\n  {ONE.rstrip()}", ["one", "new"]),
    ],
)
def test_it_stands_behind_the_others(text, names):
    _, entry = new_key("new", scopes=["Ocr", "model:*"])
    changed = _with_entry(text, entry)
    ring = read_key_text(changed, source="keys.yaml")
    assert [rule.name for rule in ring.rules] == names
    assert ring.public == (("/docs",) if "public" in text else ())
    for line in text.splitlines():
        assert line in changed or "[]" in line  # what stood there stands there

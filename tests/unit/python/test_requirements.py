"""What a `requirements.txt` names on this machine, and when that makes another environment."""

import pytest

from trilith.runtime.backends.python.environment import environment_key
from trilith.runtime.backends.python.requirements import named_in


@pytest.fixture
def folder(tmp_path):
    for name in ("my.whl", "own/a.whl", "own/b.whl", "pkg/pyproject.toml", "pkg/src/m.py", "more/base.txt", "c d.zip"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("" if name.endswith(".txt") else name)
    return tmp_path


def key(folder):
    requirements = folder / "requirements.txt"
    return environment_key(requirements.read_bytes(), named_in(requirements))


@pytest.mark.parametrize(
    ("lines", "changes"),
    [
        ("./my.whl", "my.whl"),
        ("my.whl", "my.whl"),
        ("numpy\n./my.whl  # ours", "my.whl"),
        ("./my.whl[extra] ; python_version > '3'", "my.whl"),
        ("./my.whl --hash=sha256:00", "my.whl"),
        ("my @ file:./my.whl", "my.whl"),
        ("my @ file://{folder}/my.whl", "my.whl"),
        ("file://{folder}/my.whl", "my.whl"),
        ("{folder}/my.whl", "my.whl"),
        ("file://{folder}/c%20d.zip", "c d.zip"),
        ("-f own", "own/b.whl"),
        ("-fown", "own/b.whl"),
        ("--find-links ./own/", "own/a.whl"),
        ("--find-links=own", "own/new.whl"),
        ("--find-links=file:own", "own/new.whl"),
        ("./pkg", "pkg/src/m.py"),
        ("-e ./pkg", "pkg/pyproject.toml"),
        ("--editable=./pkg[all]", "pkg/setup.py"),
        ("-r more/base.txt", "more/base.txt"),
        ("-c more/base.txt", "more/base.txt"),
        ("--requirement \\\n  more/base.txt", "more/base.txt"),
        ("$NOWHERE_AT_ALL/my.whl\n./my.whl", "my.whl"),
    ],
)
def test_what_changes_makes_another_environment(folder, lines, changes):
    (folder / "requirements.txt").write_text(lines.format(folder=folder))
    before = key(folder)
    assert key(folder) == before
    (folder / changes).write_text("something that is new")
    assert key(folder) != before


def test_files_that_name_files(folder):
    (folder / "requirements.txt").write_text("-r more/base.txt\n")
    (folder / "more" / "base.txt").write_text("-r deep.txt\n-r base.txt\n./my.whl\n")  # circles are pip's own affair
    (folder / "more" / "deep.txt").write_text("numpy\n")
    keys = [key(folder)]
    for changes in ("more/deep.txt", "my.whl"):
        (folder / changes).write_text("something that is new")
        keys.append(key(folder))
    assert len(set(keys)) == 3


def test_places_and_times_do_not_matter(folder, tmp_path_factory):
    elsewhere = "--index-url https://example.org/simple\n-e git+https://x.org/y\nz @ https://x.org/z.whl"
    (folder / "requirements.txt").write_text(f"numpy>=1\n./my.whl\n-f own\n./pkg\n{elsewhere}")
    before = key(folder)
    (folder / "my.whl").touch()
    (folder / "other.whl").write_text("not named")
    (folder / "pkg" / "build").mkdir()
    (folder / "pkg" / "build" / "m.py").write_text("what building it leaves")
    assert key(folder) == before
    assert key(folder.rename(tmp_path_factory.mktemp("new") / "copy")) == before


def test_without_files_of_this_machine_the_text_is_all(folder):
    requirements = folder / "requirements.txt"
    index = "--index-url https://example.org/simple/"
    requirements.write_text(f"numpy>=1.2,<3  # ./my.whl\n{index}\nx[y]==1.0\n\n-r gone.txt\nfile://[\n./a\0b")
    assert list(named_in(requirements)) == []
    assert key(folder) == environment_key(requirements.read_bytes())

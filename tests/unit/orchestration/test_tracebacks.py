"""What a worker says of an error is said, whatever the error's class does."""

import pytest

from trilith.errors import TrilithError
from trilith.orchestration.engine.tracebacks import users_traceback
from trilith.service import load_target


class Ending(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Unreadable(Exception):
    @property
    def __cause__(self) -> None:  # type: ignore[override]
        raise SystemExit(3)


def test_a_text_that_ends_the_process_is_left_out():
    assert "Ending" in users_traceback(Ending())


def test_an_error_that_cannot_be_read_is_named():
    found = users_traceback(Unreadable("why"))
    assert found == "(the traceback of Unreadable: why cannot be shown: reading it raised SystemExit)"


def caught(name):
    with pytest.raises(TrilithError) as raised:
        load_target(name)
    return users_traceback(raised.value.__cause__)


def test_a_module_that_is_not_there_needs_no_traceback():
    assert caught("no_such_package.module:X") == ""


def test_a_module_that_misses_another_has_its_own_frames_alone(tmp_path, monkeypatch):
    (tmp_path / "misses_another.py").write_text("import no_such_package_at_all")
    monkeypatch.chdir(tmp_path)
    found = caught("misses_another:X")
    assert found.count("File ") == 1
    assert "misses_another.py" in found


def test_the_sentence_of_a_wrong_decorator_stands_above_alone(tmp_path, monkeypatch):
    (tmp_path / "wrong_batch.py").write_text("import trilith\n\nBATCH = trilith.Batch(max_size=-1)\n")
    monkeypatch.chdir(tmp_path)
    found = caught("wrong_batch:X")
    assert found.startswith("Traceback (most recent call last):\n")
    assert "BATCH = trilith.Batch(max_size=-1)" in found
    assert "max_size must be" not in found

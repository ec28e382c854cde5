"""What a worker says of an error is said, whatever the error's class does."""

from trilith.orchestration.engine.tracebacks import users_traceback


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

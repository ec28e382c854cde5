"""Tracebacks begin where the author's code does."""

import functools
import json

import trilith
from trilith.core.own_frames import has_foreign_frames, own_traceback


def broken() -> None:
    raise ValueError("here")


def first_of(error: BaseException) -> str:
    trace = own_traceback(error)
    assert trace is not None
    return trace.tb_frame.f_code.co_name


def raised_by(function: object) -> BaseException:
    """What it raises, without the frame that calls it."""
    try:
        function()  # type: ignore[operator]
    except (TypeError, ValueError, trilith.errors.TrilithError) as error:
        return error.with_traceback(error.__traceback__.tb_next)  # type: ignore[union-attr]
    raise AssertionError


def test_frames_of_libraries_on_the_way_are_left_out():
    error = raised_by(functools.partial(json.loads, "{}", object_hook=lambda _: broken()))
    assert first_of(error) == "<lambda>"
    assert has_foreign_frames(error)


def test_where_no_frame_is_the_authors_all_are_shown():
    error = raised_by(functools.partial(json.loads, "{"))
    assert first_of(error) == "loads"
    assert not has_foreign_frames(error)
    ours = raised_by(functools.partial(trilith.Batch, max_size=0))
    assert own_traceback(ours) is ours.__traceback__


def test_an_error_that_the_authors_came_from():
    error = RuntimeError("wrapped")
    error.__cause__ = raised_by(broken)
    assert has_foreign_frames(error)

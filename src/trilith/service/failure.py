"""What a method raised, as the caller may see it.

Rule 1: Trilith's own errors pass with their code. Everything else is logged here with its traceback, and the client is
told where to look: a message of a user's exception may hold what no client should read.
Rule 2: whoever made a call is to blame for it. When a method calls another service, a model or a server, and lets out
that its call was refused, the method is at fault, not its own caller, who gets what he gets for any failure. That there
was no room or no time is nobody's fault and passes with its code. What the items raise that a method gives to a call
is an error of the method itself.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterable, AsyncIterator
from types import TracebackType
from typing import Any, Final

from trilith.core.foreign import error_text, named_error
from trilith.core.own_frames import has_foreign_frames, own_traceback
from trilith.errors import CallerError, InvalidInput, ServiceError, SetupError, TrilithError
from trilith.service.codecs.mismatch import ResultMismatch
from trilith.service.hints import error_hint

_log: Final = logging.getLogger("trilith.service")
_CALLS: Final = "__trilith_calls__"
_GIVEN: Final = "__trilith_given__"


class Calling:
    """A block that makes a call: errors of Trilith that leave it are marked as that call's.

    Args:
        callee: `Detector.detect`, `model ocr-det`.
    """

    __slots__ = ("_callee",)

    def __init__(self, callee: str) -> None:
        self._callee = callee

    def __enter__(self) -> None:
        return None

    def given(self, items: AsyncIterable[Any]) -> AsyncIterator[Any]:
        """Items that are given to the call: what they raise is not marked as the call's."""
        return _Given(items, self._callee)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, TrilithError):
            if vars(error).get(_GIVEN) == self._callee:
                del vars(error)[_GIVEN]
                return
            calls = _calls(error)
            if calls[:1] != (self._callee,):  # one error may fail several calls of a batch
                vars(error)[_CALLS] = (self._callee, *calls)


class _Given:
    """Items that a call is given."""

    __slots__ = ("_callee", "_items")

    def __init__(self, items: AsyncIterable[Any], callee: str) -> None:
        self._items = aiter(items)
        self._callee = callee

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._items)
        except TrilithError as error:
            vars(error)[_GIVEN] = self._callee
            raise

    async def aclose(self) -> None:
        """Closes them, if they can be."""
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()


def _calls(error: TrilithError) -> tuple[str, ...]:
    """The calls that an error came out of, the outermost first; none for one that the method raised itself."""
    found: tuple[str, ...] = vars(error).get(_CALLS, ())
    return found


def explain(error: BaseException, where: str, request_id: str, *, debug: bool, logged: bool = False) -> TrilithError:
    """The error that the client gets.

    Args:
        error: what the method raised.
        where: `Ocr.read`.
        request_id: appears in the log and in the message.
        debug: whether the client may see the exception's type and message.
        logged: whether the log has this very exception already.
    """
    request_id = request_id or "-"
    try:
        calls = _calls(error) if isinstance(error, CallerError) else ()
        if isinstance(error, TrilithError) and not isinstance(error, SetupError) and not calls:
            return _known(error)
        if type(error) is ResultMismatch:  # a whole sentence; the way to it is Trilith's alone
            if not logged:
                trace = _own(error) if has_foreign_frames(error) else None
                _log.error("%s (request %s)", error, request_id, exc_info=trace)
            return ServiceError(str(error)) if debug else _seen_in_log(where, request_id)
        happened = (
            _refused(error, calls) if calls else f"raised {named_error(error).removesuffix(': ')}{error_hint(error)}"
        )
        if not logged:
            _log.error("%s %s (request %s)", where, happened, request_id, exc_info=_own(error))
    except BaseException as broken:  # noqa: BLE001  the user's class: whatever its attributes raise
        happened = f"raised {type(error).__name__}, and reading it raised {type(broken).__name__}"
        _log.error("%s %s (request %s)", where, happened, request_id)
    if debug:
        return ServiceError(f"{where} {happened}")
    return _seen_in_log(where, request_id)


def _seen_in_log(where: str, request_id: str) -> ServiceError:
    return ServiceError(f"{where} failed; see the server's log, request id {request_id}")


def _own(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """What the log shows: the frames of the author's code first."""
    return type(error), error, own_traceback(error)


def _known(error: TrilithError) -> TrilithError:
    """The error as one of Trilith's own classes: of another a client could know neither code nor status."""
    kind = next(one for one in type(error).__mro__ if one.__module__ == TrilithError.__module__)
    wanted_s = getattr(error, "retry_after_s", None)  # its constructor may not have called ours
    retry_after_s = wanted_s if isinstance(wanted_s, int | float) and 0 <= wanted_s < math.inf else None
    message: object = getattr(error, "message", "")
    text = error_text(Exception(message)) or error_text(error)
    if type(error) is kind and type(message) is str and message == text and retry_after_s is wanted_s:
        return error
    known: TrilithError = kind(text, retry_after_s=retry_after_s)
    known.__cause__ = error
    return known


def _refused(error: BaseException, calls: tuple[str, ...]) -> str:
    how = "with an argument that it refuses" if isinstance(error, InvalidInput) else "in a way that it refuses"
    return f"called {', which called '.join(calls)} {how}: {error_text(error)}"

"""What a method raised, as the caller may see it.

Rule: Trilith's own errors pass with their code. Everything else is logged here with its traceback, and the client is
told where to look: a message of a user's exception may hold what no client should read.
"""

from __future__ import annotations

import logging
from typing import Final

from trilith.errors import ServiceError, SetupError, TrilithError

_log: Final = logging.getLogger("trilith.service")


def explain(error: BaseException, where: str, request_id: str, *, debug: bool, logged: bool = False) -> TrilithError:
    """The error that the client gets.

    Args:
        error: what the method raised.
        where: `Ocr.read`.
        request_id: appears in the log and in the message.
        debug: whether the client may see the exception's type and message.
        logged: whether the log has this very exception already.
    """
    if isinstance(error, TrilithError) and not isinstance(error, SetupError):
        return error
    name = type(error).__name__
    if not logged:
        _log.error("%s raised %s: %s (request %s)", where, name, error, request_id or "-", exc_info=error)
    if debug:
        return ServiceError(f"{where} raised {name}: {error}")
    return ServiceError(f"{where} failed; see the server's log, request id {request_id or '-'}")

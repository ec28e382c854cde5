"""Every error that Trilith raises on purpose, in one tree that says who is to blame.

    TrilithError
      CallerError              the request is wrong: sending it again cannot help
        InvalidInput           a value, shape, type or encoding is not what was declared
          PayloadTooLarge      the body is over a limit
          UnsupportedMediaType the content type is not one that this endpoint reads
        NotFound               there is no such route, service, method or version
          UnknownModel         no model of that name (or version) is loaded
        MethodNotAllowed       the route exists, the HTTP method does not
        NotAcceptable          the answer cannot be given in any form that the caller takes
        Unauthenticated        the caller has not shown who it is
        Forbidden              the caller may not do this
        AlreadyExists          what should be made is there already
        Conflict               another request took this one's place
        Unsupported            understood, and deliberately not offered
      CapacityError            the request is fine: try again later
        QueueFull              a bound on waiting work was met
          RateLimited          a bound on what this caller may ask for was met
        NoReadyReplica         nothing that could run it is ready
        Draining               the server is stopping and takes no new work
        QueueTimeout           it waited for as long as it may, and was not begun
      DeadlineExceeded         the caller's or the server's time limit passed
      Cancelled                the caller went away or took the request back
      ExecutionError           the user's code or model failed
        ModelError             a model's execution raised
        ServiceError           a service's method raised
        ReplicaLost            the process that held the request died
        UnknownFailure         a model failed and will not say how
      SetupError               what was asked to serve cannot: the program, or a model that a client loads
        InvalidConfig          a configuration value is wrong; the message has its path
        UnknownReference       a model, service or file reference resolves to nothing
        PortInUse              another process listens there
      Bug                      Trilith is wrong: please report

Rule 1: a class is added only when a caller would act differently on it.
Rule 2: `code` is the stable word that clients and metrics see; it never changes and is unique.
Rule 3: nothing here knows HTTP or gRPC. `wire/http_status.py` and `wire/grpc_status.py` map the tree, nobody else.
Rule 4: a message says what was expected, what came, where, and what to do.
"""

from __future__ import annotations

import functools
from typing import ClassVar


class TrilithError(Exception):
    """The root. Raise one of its children.

    Attributes:
        code: stable machine-readable word, unique in the tree.
        message: one or two sentences for a person.
        retry_after_s: seconds after which trying again is sensible, or None.
        request_id: of an error that a server told: that of the request, by which its log names it; else "".
    """

    code: ClassVar[str] = "error"
    request_id: str = ""

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None) -> None:
        said = self._said_by_default() if message is None else message
        super().__init__(said)
        self.message = said
        self.retry_after_s = retry_after_s

    def _said_by_default(self) -> str:
        """What the class is for: the first line of its description, where there is one; else its code."""
        found = next((kind.__doc__ for kind in type(self).__mro__ if kind.__doc__), None) or self.code
        return found.strip().partition("\n")[0]


class CallerError(TrilithError):
    """The request is wrong: sending it again unchanged cannot help."""

    code = "invalid_request"


class InvalidInput(CallerError):
    """A value, shape, datatype or encoding is not what was declared."""

    code = "invalid_input"


class PayloadTooLarge(InvalidInput):
    """The body, or a part of it, is over a limit."""

    code = "payload_too_large"


class UnsupportedMediaType(InvalidInput):
    """The content type is not one that this endpoint reads."""

    code = "unsupported_media_type"


class NotFound(CallerError):
    """There is no such route, service, method or version."""

    code = "not_found"


class UnknownModel(NotFound):
    """No model of that name (or version) is loaded."""

    code = "unknown_model"


class MethodNotAllowed(CallerError):
    """The route exists, but not for this HTTP method."""

    code = "method_not_allowed"


class NotAcceptable(CallerError):
    """The answer cannot be given in any of the forms that the caller takes."""

    code = "not_acceptable"


class Unauthenticated(CallerError):
    """The caller has shown no key or certificate, or one that is not known or holds no more."""

    code = "unauthenticated"


class Forbidden(CallerError):
    """The caller has not shown that it may do this."""

    code = "forbidden"


class AlreadyExists(CallerError):
    """What the request would make is there already."""

    code = "already_exists"


class Conflict(CallerError):
    """Another request, or a change of what it is about, took this one's place."""

    code = "conflict"


class Unsupported(CallerError):
    """The request is understood and deliberately not offered."""

    code = "unsupported"


class CapacityError(TrilithError):
    """The request is fine, there is no room for it now: try again later."""

    code = "unavailable"


class QueueFull(CapacityError):
    """A bound on waiting work was met."""

    code = "queue_full"


class RateLimited(QueueFull):
    """This caller asks for more than it may, at a time or in a time; others are served."""

    code = "rate_limited"


class NoReadyReplica(CapacityError):
    """Nothing that could run the request is ready."""

    code = "no_ready_replica"


class Draining(CapacityError):
    """The server is stopping and takes no new work."""

    code = "draining"


class QueueTimeout(CapacityError):
    """The request waited in a queue for as long as its policy lets it, and was not begun."""

    code = "queue_timeout"


class DeadlineExceeded(TrilithError):
    """The caller's or the server's time limit passed before there was an answer."""

    code = "deadline_exceeded"


class Cancelled(TrilithError):
    """The caller went away or took the request back."""

    code = "cancelled"


class ExecutionError(TrilithError):
    """The user's own code or model failed."""

    code = "execution_failed"


class ModelError(ExecutionError):
    """A model's execution raised."""

    code = "model_failed"


class ServiceError(ExecutionError):
    """A service's method raised."""

    code = "service_failed"


class ReplicaLost(ExecutionError):
    """The process that held the request died, and running it again may not be safe."""

    code = "replica_lost"


class UnknownFailure(ExecutionError):
    """A model's execution failed in a way that it does not name."""

    code = "unknown_failure"


class SetupError(TrilithError):
    """What was asked to serve cannot be started: the program, or a model.

    Clients get it from the endpoints that load models, without what it says of the machine, and from nowhere else.
    """

    code = "setup_failed"


class InvalidConfig(SetupError):
    """A configuration value is wrong; the message starts with its file and path."""

    code = "invalid_config"


class UnknownReference(SetupError):
    """A model, service or file reference resolves to nothing; the message lists where was looked."""

    code = "unknown_reference"


class PortInUse(SetupError):
    """Another process listens on the address."""

    code = "port_in_use"


class Bug(TrilithError):
    """Trilith itself is wrong. The message ends with how to report it."""

    code = "bug"


def wire_code(error: TrilithError) -> str:
    """The code by which an error crosses a process boundary: that of its nearest class in this tree.

    A user's own subclass of, say, `InvalidInput` arrives as `invalid_input`: the other side knows only this tree.
    """
    return next(
        kind.code for kind in type(error).__mro__ if issubclass(kind, TrilithError) and kind.__module__ == __name__
    )


@functools.cache
def _by_code() -> dict[str, type[TrilithError]]:
    """The classes of this file. A user's own subclasses are not of the tree, and may have constructors of their own."""
    return {kind.code: kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, TrilithError)}


def error_from_code(code: str, message: str, *, retry_after_s: float | None = None) -> TrilithError:
    """Rebuilds an error that crossed a process boundary.

    Args:
        code: the `code` of a class of this tree; an unknown one gives the root, so that nothing is lost.
        message: the sentence that the other side sent.
        retry_after_s: seconds, or None.
    """
    return _by_code().get(code, TrilithError)(message, retry_after_s=retry_after_s)

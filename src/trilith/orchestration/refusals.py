"""Why a call got no answer, as errors with the words that its caller reads. Pure."""

from __future__ import annotations

from trilith.errors import DeadlineExceeded, NotFound, QueueFull, ReplicaLost
from trilith.orchestration.deployments import MethodRoute


def not_served(route: MethodRoute) -> NotFound:
    """The method is not, or not any more, among what is served."""
    return NotFound(f"{route.service}.{route.method} is no longer served")


def queue_full(service: str, waiting: int, replicas: int) -> QueueFull:
    """As many calls of a service wait as may."""
    return QueueFull(
        f"{waiting} calls of {service} wait already, which is its limit; try again later"
        f" ({replicas} replicas are running)"
    )


def overdue(route: MethodRoute, limit_s: float, *, sent: bool) -> DeadlineExceeded:
    """The call's deadline has passed, `limit_s` seconds after it came; `sent`: a replica holds it."""
    where = "before the replica answered" if sent else "while it waited for a replica"
    return DeadlineExceeded(
        f"{route.service}.{route.method} did not answer within"
        f" {limit_s:.3g} s: the time ran out {where}. The limit is timeout_s of"
        " @trilith.api or @trilith.service, or less if the caller says so (trilith-timeout-ms)"
    )


def replica_lost(route: MethodRoute, attempt: int, *, unwell: bool = False, items: int = 0) -> ReplicaLost:
    """The process that held the call has ended, and the call, sent `attempt` times, may not be sent again.

    `unwell`: the process was ended because it gave no sign of life or its threads did not return; the call may be why.
    `items`: how many of its items the caller of a streaming method has.
    """
    if unwell:
        return ReplicaLost(
            f"the process that ran {route.service}.{route.method} hung and was ended; the call may be what it hung in,"
            f" so it was not sent again{f' after {attempt} attempts' if attempt > 1 else ''}; see the server's log"
        )
    if route.is_mount:
        when = "in the middle of its answer" if items else "before it answered"
        return ReplicaLost(
            f"the process of {route.service} that answers what lies under {route.method} ended {when}; it may have done"
            " the work, so the request was not sent again"
        )
    if items:
        return ReplicaLost(
            f"the process that ran {route.service}.{route.method} ended after {items} items; a stream is not sent again"
            " once it has begun"
        )
    ended = f"the process that ran {route.service}.{route.method} ended before it answered"
    if route.idempotent:
        return ReplicaLost(f"{ended}; so did {attempt} processes in a row, and the call is not sent again")
    return ReplicaLost(
        f"{ended}; the call may have run, so it was not sent again. Declare the method idempotent=True to have such"
        " calls retried"
    )

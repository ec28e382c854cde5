"""Why the server is not ready: the one answer for probes, for `trilith status` and for whoever asks next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_MOST_NAMED: Final = 10
DRAINING: Final = "the server is stopping"


def problems(
    *,
    services_without_replica: Sequence[str],
    application_missing: bool,
    models_ready: bool,
    models_missing: Sequence[str],
    draining: bool,
) -> list[str]:
    """Sentences for a person; none when the server is ready.

    Args:
        services_without_replica: names of services that nobody serves.
        application_missing: an application is to come, and is not there yet.
        models_ready: every model that should serve does.
        models_missing: names of those that do not.
        draining: the server is stopping.
    """
    found = [f"no replica of {name} is ready" for name in services_without_replica]
    if application_missing:
        found.append("the application is not loaded yet")
    if not models_ready:
        named = ", ".join(models_missing[:_MOST_NAMED]) + (", ..." if len(models_missing) > _MOST_NAMED else "")
        who = f"not loaded: {named}" if models_missing else "the models are not loaded yet"
        found.append(f"{who}; see /v2/repository/index")
    if draining:
        found.append(DRAINING)
    return found

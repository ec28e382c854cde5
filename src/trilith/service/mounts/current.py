"""The instance of a service that a mounted application answers for."""

from __future__ import annotations

import contextvars
from typing import Any, Final

from trilith.errors import ServiceError

current_instance: Final[contextvars.ContextVar[Any]] = contextvars.ContextVar("trilith_current_instance", default=None)
"""None where nothing mounted runs."""


def current_service() -> Any:
    """The instance of the service below which this application is mounted. For routes that stand outside of the class:

        @app.get("/hello")
        def hello(shop: Annotated[Any, Depends(trilith.current_service)]): return shop.greeting

    Raises:
        ServiceError: no application that is mounted on a service runs here.
    """
    found = current_instance.get()
    if found is None:
        raise ServiceError(
            "trilith.current_service() has an answer in an application that is mounted on a service, while it answers a"
            " request of the service's server. In a test without one: `with trilith.testing.mounts.answering(Shop()):`"
        )
    return found

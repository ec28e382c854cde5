"""What type-checkers must say of mounted applications. Checked by mypy alone (`make check`); nobody runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, assert_type

import trilith

Message = MutableMapping[str, Any]


Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def page(scope: Message, receive: Receive, send: Send) -> None:
    """An ASGI application."""


class Passes:
    """Middleware."""

    def __init__(self, app: Any, size: int = 1) -> None: ...


@trilith.service(middleware=[Passes, (Passes, {"size": 2})])
class Shop:
    """One mount of each kind."""

    page = trilith.mount("/page", page)
    named = trilith.mount("/named", "shop:page", timeout_s=3)
    wrong = trilith.mount("/wrong", 3)  # type: ignore[call-overload]
    without = trilith.mount()  # type: ignore[call-overload]

    @trilith.mount("/made", timeout_s=3)
    def made(self) -> type[Passes]:
        """What is decorated stays what it is."""
        return Passes


assert_type(Shop().made(), type[Passes])

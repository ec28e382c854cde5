"""Functions that say who a caller is, and a service behind them."""

from __future__ import annotations

import asyncio
import os
import signal

import trilith
from trilith.errors import Forbidden


@trilith.service
class Words:
    @trilith.api
    async def count(self, text: str) -> int:
        return len(text.split())

    @trilith.api
    async def who(self) -> dict[str, str]:
        identity = trilith.context().identity
        assert identity is not None
        return {"name": identity.name, "kind": identity.kind, **identity.claims}


async def check(request: trilith.AccessRequest) -> trilith.Identity | None:
    word = request.headers.get("authorization", "")
    match word:
        case "":
            return None
        case "Secret banned":
            raise Forbidden(f"{word.split()[1]} may not call {request.asks}")
        case "Secret breaks":
            raise ValueError("something the caller should not read")
        case "Secret lies":
            return "no identity"  # type: ignore[return-value]
        case "Secret hangs":
            await asyncio.sleep(60)
        case "Secret dies":
            os.kill(os.getpid(), signal.SIGKILL)
    return trilith.Identity(
        name=word.split()[-1], claims={"path": request.path, "asks": request.asks, "pid": str(os.getpid())}
    )


class Check:
    """One with something that it needs while it lives."""

    async def __aenter__(self) -> Check:
        self.asked = 0
        return self

    async def __aexit__(self, *error: object) -> None:
        self.asked = -1

    def __call__(self, request: trilith.AccessRequest) -> trilith.Identity | None:
        self.asked += 1
        return trilith.Identity(name=f"{request.method}-{self.asked}")


def wants_two(request: trilith.AccessRequest, more: int) -> None:
    return None


not_callable = 5

"""What type-checkers must say of hooks and contexts. Checked by mypy alone (`make check`); nobody runs it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import trilith


@trilith.on_deploy
def beside() -> None:
    """Runs before a deployment."""


@trilith.service(health_interval_s=1, health_timeout_s=2.5, health_failures=2)
class Hooks:
    """Has one of each."""

    @staticmethod
    @trilith.on_deploy
    def fetch() -> None:
        """Runs before a deployment."""

    @classmethod
    @trilith.on_deploy(timeout_s=5)
    async def migrate(cls) -> None:
        """Does too."""

    def __is_ready__(self) -> bool:
        """Asked."""
        return True

    @trilith.api
    async def says(self) -> str:
        """Says something of its answer."""
        context = trilith.context()
        context.status = 201
        context.status = "201"  # type: ignore[assignment]
        context.set_header("x-a", "b")
        context.set_header("x-a", 5)  # type: ignore[arg-type]
        context.set_cookie("a", "b", max_age_s=60, same_site="strict")
        context.set_cookie("a", "b", same_site="Strict")  # type: ignore[arg-type]
        assert_type(context.temp_dir, Path)
        assert_type(context.cookies, dict[str, str])
        assert_type(context.identity, trilith.Identity | None)
        assert_type(context.items, tuple[trilith.Context, ...])
        return context.client


async def check(request: trilith.AccessRequest) -> trilith.Identity | None:
    """Says who a caller is."""
    assert_type(request.headers, dict[str, str])
    assert_type(beside(), None)
    return trilith.Identity(name=request.client, claims={"team": "a"})

"""What type-checkers must say of a user's program. Checked by mypy alone (`make check`); nobody runs it.

Rule: a wrong use has `type: ignore`, and mypy reports an ignore that nothing needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import trilith


@trilith.service
class Reader:
    """One method of each kind."""

    @trilith.api(batch=trilith.Batch(max_size=4), idempotent=True)
    async def read(self, words: list[str]) -> list[int]:
        """Asynchronous and batched."""
        return [len(word) for word in words]

    @trilith.api(batch=trilith.Batch())
    def read_in_thread(self, words: list[str]) -> list[int]:
        """Synchronous and batched."""
        return words  # type: ignore[return-value]

    @trilith.api(batch=trilith.Batch())
    async def two(self, words: list[str], *, counts: list[int]) -> list[str]:
        """Of several parameters: not checked where it is called."""
        return [word * count for word, count in zip(words, counts, strict=True)]

    @trilith.api(timeout_s=3)
    async def plain(self, word: str, *, times: int = 1) -> str:
        """Not batched."""
        return word * times

    @trilith.api(timeout=3)  # type: ignore[call-overload, untyped-decorator]
    async def misspelled(self) -> None:
        """An option that does not exist."""


@trilith.service
async def shout(text: str) -> str:
    """A function."""
    return text.upper()


@trilith.service(batch=trilith.Batch(max_size=3), replicas=2)
async def shout_many(texts: list[str]) -> list[str]:
    """A batched function."""
    return [text.upper() for text in texts]


@trilith.service(replicas=2)
class Page:
    """Calls them."""

    reader = trilith.depends(Reader)
    shout = trilith.depends(shout)
    shout_many = trilith.depends(shout_many)

    @trilith.api
    async def read(self, text: str) -> int:
        """Right uses, and wrong ones."""
        assert_type(self.reader.read, Callable[[str], Coroutine[Any, Any, int]])
        assert_type(await asyncio.gather(*(self.reader.read(word) for word in text.split())), list[int])
        assert_type(await self.reader.two(text, counts=2), Any)
        assert_type(await self.reader.plain(text, times=2), str)
        assert_type(await self.shout(text=text), str)
        assert_type(await self.shout_many(text), str)
        await self.reader.read([text])  # type: ignore[arg-type]
        await self.shout_many([text])  # type: ignore[arg-type]
        await self.shout(3)  # type: ignore[arg-type]
        await self.reader.plain(3)  # type: ignore[arg-type]
        return 0

    @trilith.api
    def read_in_thread(self, text: str) -> int:
        """In a thread a call waits."""
        return assert_type(self.reader.read_in_thread(text), int)


async def by_hand() -> None:
    """Methods of an instance that a unit test made."""
    reader = Reader()
    assert_type(await reader.read("a"), int)
    await reader.read(["a"])  # type: ignore[arg-type]
    assert_type(await Reader.read.batch(reader, ["a", "b"]), list[int])
    assert_type(await shout_many("a"), str)
    assert_type(await shout_many.batch(["a", "b"]), list[str])

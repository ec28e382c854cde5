"""What a signature says of streams, and what it may not say."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

import trilith
from trilith.errors import InvalidConfig
from trilith.service import Batch, describe, openapi_document, spec_of
from trilith.service.signature import read_signature

ASYNC = [AsyncIterator[int], AsyncIterable[int], AsyncGenerator[int, None], Annotated[AsyncIterator[int], "counts"]]
PLAIN = [Iterator[int], Iterable[int], Generator[int, None, None]]


@pytest.mark.parametrize(("annotation", "asynchronous"), [*((a, True) for a in ASYNC), *((p, False) for p in PLAIN)])
def test_every_word_for_a_stream_is_read(annotation, asynchronous):
    def method(self, a: int):
        return iter([a])

    method.__annotations__ = {"a": int, "return": annotation}
    signature = read_signature(method, "S.method")
    assert (signature.streams, signature.asynchronous) == (True, asynchronous)
    assert signature.result.annotation is int


def test_a_stream_that_is_taken_is_no_parameter():
    async def method(self, start: int, parts: AsyncIterator[bytes], *, stop: int = 3) -> int:
        return 1

    signature = read_signature(method, "S.method")
    assert [parameter.name for parameter in signature.parameters] == ["start", "stop"]
    assert signature.taken is not None
    assert (signature.taken.name, signature.taken.value.annotation) == ("parts", bytes)
    assert list(signature.inspected.parameters) == ["start", "parts", "stop"]


def test_a_list_that_is_taken_is_no_stream():
    def method(self, a: Iterable[int]) -> int:
        return sum(a)

    assert read_signature(method, "S.method").taken is None


def generator(self) -> list[int]:
    yield 1


async def async_generator(self) -> Iterator[int]:
    yield 1


async def coroutine(self) -> AsyncIterator[int]:
    return None  # type: ignore[return-value]


async def two(self, a: AsyncIterator[int], b: AsyncIterator[int]) -> int:
    return 1


async def plain_taken(self, a: Iterator[int]) -> int:
    return 1


def async_taken(self, a: AsyncIterator[int]) -> int:
    return 1


def default(self, a: Iterator[int] = iter(())) -> int:  # noqa: B008
    return 1


def files(self) -> Iterator[Path]:
    yield Path()


def taken_files(self, a: Iterator[Path]) -> int:
    return 1


def nested(self) -> Iterator[Iterator[int]]:
    yield iter(())


def given_generator(self, a: Generator[int, None, None]) -> int:
    return 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (generator, "is a generator: write `-> Iterator"),
        (async_generator, "is an async generator: write `-> AsyncIterator"),
        (coroutine, "an `async def` without a `yield`"),
        (two, "takes two streams, 'a' and 'b'"),
        (plain_taken, r"an `async def` cannot read: write AsyncIterator\[...\]"),
        (async_taken, r"a plain `def` cannot read: write Iterator\[...\]"),
        (default, "is a stream and has a default"),
        (files, "a stream of files"),
        (taken_files, "a stream of files"),
        (nested, "has no place there"),
        (given_generator, "has no place there"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(function, message):
    with pytest.raises(InvalidConfig, match=message):
        trilith.service(type("Some", (), {function.__name__: trilith.api(function)}))


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"xs": list[int], "return": Iterator[int]}, "is batched and answers with a stream"),
        ({"xs": Iterator[int], "return": list[int]}, "is batched and takes a stream"),
    ],
)
def test_a_batch_has_no_streams(annotations: dict[str, Any], message):
    def method(self, xs):
        return xs

    method.__annotations__ = annotations
    with pytest.raises(InvalidConfig, match=message):
        trilith.service(type("Some", (), {"method": trilith.api(batch=Batch())(method)}))


@trilith.service
class Described:
    @trilith.api
    async def words(self, n: int) -> AsyncIterator[str]:
        yield "a"

    @trilith.api
    def parts(self, parts: Iterator[bytes], by: int) -> int:
        return by

    @trilith.api
    async def both(self, numbers: AsyncIterator[int]) -> AsyncIterator[bytes]:
        async for number in numbers:
            yield bytes(number)


def test_descriptions_and_openapi_tell_of_streams():
    description = describe(Described)
    words, parts, both = description.root.methods
    assert (words.streams, words.taken) == (True, None)
    assert words.offers == [
        "text/event-stream",
        "application/jsonl",
        "application/x-ndjson",
        "text/plain; charset=utf-8",
    ]
    assert parts.taken is not None
    assert parts.accepts == ["application/octet-stream", "application/jsonl", "application/x-ndjson"]
    assert both.offers[0] == "application/octet-stream"
    paths = openapi_document(description)["paths"]
    answer = paths["/words"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    assert answer == {"schema": {"type": "string"}, "x-itemSchema": {"type": "string"}}
    sent = paths["/parts"]["post"]
    assert [parameter["name"] for parameter in sent["parameters"]] == ["by"]
    assert "application/jsonl" in sent["requestBody"]["content"]
    assert sent["x-trilith"]["taken"]["name"] == "parts"


def test_how_many_calls_a_replica_takes():
    @trilith.service(threads=3)
    class Plain:
        @trilith.api
        def numbers(self) -> Iterator[int]:
            yield 1

    assert spec_of(Plain).concurrency == 3
    assert spec_of(Described).concurrency == 64

"""A batched method as its callers see it: one item in, one result out. Its definition takes and gives lists.

    class Reader:
        @trilith.api(batch=trilith.Batch(max_size=4))
        async def read(self, words: list[str]) -> list[str]: ...

    await Reader().read("a")                              by hand: a batch of one
    await self.reader.read("a")                           through `trilith.depends`: joined with what else waits
    await Reader.read.batch(Reader(), ["a", "b"])         the definition itself: a list

Rule 1: what a type-checker is told and what happens are the same, wherever the method is called from.
Rule 2: the parameter's name is lost to type-checkers (a `Callable` has none), so they want it given by position. A
method of several parameters is checked inside, not where it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from trilith.service.batching import columns, split_results
from trilith.service.signature import MethodSignature, read_signature

Whole = TypeVar("Whole", bound=Callable[..., Any])
One = ParamSpec("One")
Answer = TypeVar("Answer")
Item = TypeVar("Item")
Result = TypeVar("Result")


class _Batched(Generic[Whole]):
    """What both kinds have.

    Attributes:
        batch: the function as it is defined, over lists.
    """

    _is_method = True

    def __init__(self, function: Whole) -> None:
        self.batch = function
        functools.update_wrapper(cast("Callable[..., Any]", self), function)

    @functools.cached_property
    def _signature(self) -> MethodSignature:
        where = self.batch.__qualname__
        return read_signature(self.batch, where, is_method=self._is_method, batched=True)

    def _single(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs `function` with a batch of one."""
        where, signature = self.batch.__qualname__, self._signature

        def joined(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            positional, named = columns(signature, [(args, kwargs)])
            return function(*positional, **named)

        async def wait_for_single(*args: Any, **kwargs: Any) -> Any:
            return _only(where, await joined(args, kwargs))

        def run_single(*args: Any, **kwargs: Any) -> Any:
            return _only(where, joined(args, kwargs))

        single: Callable[..., Any] = wait_for_single if inspect.iscoroutinefunction(self.batch) else run_single
        functools.update_wrapper(single, self.batch)
        single.__signature__ = signature.inspected  # type: ignore[attr-defined]  # what inspect.signature looks for
        return single


def _only(where: str, results: object) -> Any:
    [result] = split_results(where, results, 1)
    if isinstance(result, BaseException):
        raise result
    return result


class BatchedMethod(_Batched[Whole], Generic[Whole, One, Answer]):
    """What `@trilith.api(batch=...)` makes of a method."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[One, Answer]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Callable[One, Answer]:
        if instance is None:
            return self
        return self._single(functools.partial(self.batch, instance))


class BatchedFunction(_Batched[Whole], Generic[Whole, One, Answer]):
    """What `@trilith.service(batch=...)` makes of a function."""

    _is_method = False

    def __call__(self, *args: One.args, **kwargs: One.kwargs) -> Answer:
        """The result of one call: a batch of one."""
        answer: Answer = self._single(self.batch)(*args, **kwargs)
        return answer


class BatchMethod(Protocol):
    """Type of the decorator `trilith.api(batch=...)`."""

    @overload
    def __call__(
        self, function: Callable[[Any, list[Item]], Coroutine[Any, Any, list[Result]]], /
    ) -> BatchedMethod[
        Callable[[Any, list[Item]], Coroutine[Any, Any, list[Result]]], [Item], Coroutine[Any, Any, Result]
    ]: ...
    @overload
    def __call__(
        self, function: Callable[[Any, list[Item]], list[Result]], /
    ) -> BatchedMethod[Callable[[Any, list[Item]], list[Result]], [Item], Result]: ...
    @overload
    def __call__(self, function: Whole, /) -> BatchedMethod[Whole, ..., Any]: ...


class BatchFunction(Protocol):
    """Type of the decorator `trilith.service(batch=...)`."""

    @overload
    def __call__(
        self, function: Callable[[list[Item]], Coroutine[Any, Any, list[Result]]], /
    ) -> BatchedFunction[
        Callable[[list[Item]], Coroutine[Any, Any, list[Result]]], [Item], Coroutine[Any, Any, Result]
    ]: ...
    @overload
    def __call__(
        self, function: Callable[[list[Item]], list[Result]], /
    ) -> BatchedFunction[Callable[[list[Item]], list[Result]], [Item], Result]: ...
    @overload
    def __call__(self, function: Whole, /) -> BatchedFunction[Whole, ..., Any]: ...

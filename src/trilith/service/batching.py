"""Single calls of a batched method become columns; its list of results becomes single answers.

Rule 1: results and calls are matched by position; a list of another length is refused: nobody gets another's answer.
Rule 2: a method may put an exception in its list: that item fails, the others do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilith.errors import ServiceError
from trilith.service.signature import MethodSignature

Item = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of one call: positional, keyword."""


def columns(signature: MethodSignature, items: Sequence[Item]) -> tuple[list[list[Any]], dict[str, list[Any]]]:
    """The arguments that the method sees: one list for each parameter.

    Raises:
        TypeError: an item lacks a parameter or has one too many.
    """
    if len(signature.parameters) == 1 and all(len(args) == 1 and not kwargs for args, kwargs in items):
        only = signature.parameters[0]
        column = [args[0] for args, _ in items]
        return ([], {only.name: column}) if only.keyword_only else ([column], {})
    rows = [signature.inspected.bind(*args, **kwargs).arguments for args, kwargs in items]
    positional = [[row[p.name] for row in rows] for p in signature.parameters if not p.keyword_only]
    named = {p.name: [row[p.name] for row in rows] for p in signature.parameters if p.keyword_only}
    return positional, named


def split_results(where: str, results: Any, count: int) -> list[Any]:
    """One result for each of `count` calls; an exception stands for a failed one.

    Raises:
        ServiceError: it is not a list of that length.
    """
    if hasattr(results, "__len__") and hasattr(results, "__getitem__") and not isinstance(results, (str, bytes, dict)):
        found: list[Any] = list(results)
        if len(found) == count:
            return found
        raise ServiceError(
            f"{where} was given a batch of {count} and returned {len(found)} results; it must return one for each item"
        )
    raise ServiceError(
        f"{where} is batched and must return a list, one result for each item; got {type(results).__name__}"
    )

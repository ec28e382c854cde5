"""A call of a model with more rows than one request may bring: several requests, whose answers are joined.

Rule 1: rows keep their order, and no part has more of them than the model takes.
Rule 2: parts are sent a few at a time, so that one large call does not fill the model's queue for all others.
Rule 3: the first part that fails ends the call, whichever it is: the others are taken back, and no more are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from trilith.errors import Cancelled

if TYPE_CHECKING:
    from trilith.core.tensor import Array
    from trilith.service.ports import ModelCaller

AT_ONCE: Final = 8
"""Parts of one call that are in flight together."""


def parts_of(inputs: Mapping[str, Array], most_rows: int) -> list[slice] | None:
    """The rows of each request; None when one request will do, or the arrays do not agree on their rows.

    Args:
        inputs: by name; the first dimension of each is the batch's.
        most_rows: of one request; 0: there is no batch dimension.
    """
    if not most_rows:
        return None
    rows = {
        shape[0] if shape else 0 for array in inputs.values() if (shape := getattr(array, "shape", None)) is not None
    }
    if len(rows) != 1 or (total := rows.pop()) <= most_rows:
        return None
    return [slice(start, min(start + most_rows, total)) for start in range(0, total, most_rows)]


async def infer_in_parts(caller: ModelCaller, inputs: Mapping[str, Array], parts: Sequence[slice]) -> dict[str, Array]:
    """The outputs of all parts, joined along their first dimension.

    Raises:
        TrilithError: whatever the first part that fails raises; `Cancelled` when one is cancelled from elsewhere.
    """
    import numpy as np

    answers: dict[int, dict[str, Array]] = {}
    rest = iter(enumerate(parts))

    async def send() -> None:
        for index, rows in rest:
            answers[index] = await caller.infer({name: array[rows] for name, array in inputs.items()})

    failed: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(parts))):
                group.create_task(send())
    except BaseExceptionGroup as failures:
        failed = failures.exceptions[0]
    if failed is not None:
        raise failed  # outside of `except`: it would hold the group, which holds it
    if len(answers) < len(parts):
        raise Cancelled(f"{len(parts) - len(answers)} of the {len(parts)} parts of the call were cancelled")
    return {name: np.concatenate([answers[index][name] for index in range(len(parts))]) for name in answers[0]}

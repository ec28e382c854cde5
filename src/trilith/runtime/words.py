"""The rules of a specification, told in the words of the file that breaks them.

Rule: `spec.py` and the scheduler know no file format; what they refuse begins with a name of theirs, which a reader of
a format turns into that of the field or key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from trilith.errors import InvalidConfig

ValueT = TypeVar("ValueT")

PBTXT_WORDS: Final[Mapping[str, str]] = {
    "instances.count": "instance_group.count",
    "default_priority": "dynamic_batching.default_priority_level",
    "level_policies": "dynamic_batching.priority_queue_policy",
    "queue policy: timeout": "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "queue policy: max_queue_size": "dynamic_batching.default_queue_policy.max_queue_size",
    "batching.max_batch_size": "max_batch_size",
    "batching.preferred_rows": "dynamic_batching.preferred_batch_size",
    "batching.max_wait_s": "dynamic_batching.max_queue_delay_microseconds",
    "batching.max_queue_size": "dynamic_batching.default_queue_policy.max_queue_size",
}
YAML_WORDS: Final[Mapping[str, str]] = {
    "instances.count": "instances",
    "default_priority": "priority.default",
    "level_policies": "priority.policies",
    "timeout": "timeout_ms",
    "max_latency": "batching.max_latency_ms",
    "queue policy: timeout": "queue.timeout_ms",
    "queue policy: max_queue_size": "queue.max_size",
    "batching.max_batch_size": "max_batch_size",
    "batching.preferred_rows": "batching.preferred",
    "batching.max_wait_s": "batching.max_wait_ms",
    "batching.max_queue_rows": "queue.max_rows",
    "batching.max_queue_size": "queue.max_size",
}


def in_words(message: str, words: Mapping[str, str]) -> str:
    """The message with the name that it begins with in the words of a file."""
    for own, word in words.items():
        if message.startswith(f"{own}:"):
            return f"{word}{message.removeprefix(own)}"
    return message


def _field(problem: str) -> str:
    """The field that a problem begins with, of whichever entry: `input.dims` of `input[0].dims: each ...`."""
    return re.sub(r"\[\d+\]", "", problem.split(": ", 1)[0])


class Problems:
    """What is wrong with one configuration: everything, not the first thing alone.

    Args:
        words: names of the file by names of ours.
    """

    def __init__(self, words: Mapping[str, str], found: list[str]) -> None:
        self._words = words
        self._found = found
        self._told = {_field(problem) for problem in found}

    def read(self, read: Callable[[], ValueT], default: ValueT) -> ValueT:
        """What `read` gives; what it refuses is noted, and the default stands instead."""
        try:
            return read()
        except InvalidConfig as error:
            problem = in_words(error.message, self._words)
            if _field(problem) not in self._told:  # or it was told already, by whoever looked at each field alone
                self._found.append(problem)
            return default

    def check(self, source: str) -> None:
        """Sees that there are none.

        Raises:
            InvalidConfig: there are; the message begins with `source` and has all of them.
        """
        if self._found:
            raise InvalidConfig(f"{source}: {'; '.join(dict.fromkeys(self._found))}")

"""What a person most likely meant: names that are close, words of other frameworks, exceptions of theirs.

Rule: a hint is the end of a sentence, beginning with "; "; where nothing is known it is empty.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

_MOUNTS: Final = (
    "methods answer POST; other HTTP methods are for a mounted application: @trilith.mount (docs/mounts.md)"
)
_NO_GPU: Final = "models and services run on the CPU"
_OF_OTHERS: Final = {
    "batchable": "write batch=trilith.Batch(...)",
    "gpu": _NO_GPU,
    "gpus": _NO_GPU,
    "max_batch_size": "the word here is max_size",
    "max_latency_ms": "write batch=trilith.Batch(...) with max_wait_ms",
    "max_queue_delay_microseconds": "the word here is max_wait_ms, in milliseconds",
    "batch_wait_timeout_s": "the word here is max_wait_ms, in milliseconds",
    "batch_timeout": "the word here is max_wait_ms, in milliseconds",
    "method": _MOUNTS,
    "methods": _MOUNTS,
    "num_replicas": "the word here is replicas",
    "num_workers": "the word here is replicas",
    "path": "the word here is route",
    "resources": "the words here are cpu and replicas",
    "timeout": "the word here is timeout_s, in seconds",
    "traffic": "the words here are timeout_s, concurrency and max_waiting",
    "workers": "the word here is replicas",
    "workers_per_device": "the word here is replicas",
}


def option_hint(name: str, known: Iterable[str]) -> str:
    """What to write in place of the option `name`, where those are known."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; {_OF_OTHERS[name]}" if name in _OF_OTHERS else ""


def error_hint(error: BaseException) -> str:
    """What to do about an exception that a method raised."""
    names = {(one.__module__.partition(".")[0], one.__name__) for one in type(error).__mro__}
    if ("bdb", "BdbQuit") in names:
        return "; breakpoint() needs a terminal, which a replica has not: start with `trilith serve --inline`"
    if any(name == "HTTPException" and module in _WITH_STATUS for module, name in names):
        return "; a method has no HTTP exceptions: raise one of trilith.errors, such as NotFound or InvalidInput"
    return ""


_WITH_STATUS: Final = frozenset({"aiohttp", "bentoml", "fastapi", "litserve", "starlette", "werkzeug"})

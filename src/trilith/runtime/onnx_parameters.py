"""Triton's parameters of its ONNX Runtime backend, as a session's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trilith.errors import InvalidConfig
from trilith.runtime.ranges import THREADS
from trilith.runtime.spec import SessionConfig

_GRAPH_LEVELS: Final[Mapping[int, str]] = {-1: "basic", 0: "all", 1: "extended", 2: "none"}
"""`optimization.graph.level` as Triton's ONNX Runtime backend reads it: 2 turns optimization off."""
_MOST_DIGITS: Final = 20
_SHRINKAGE: Final = "memory.enable_memory_arena_shrinkage"
_SWITCHES: Final[Mapping[str, str]] = {
    "execution_mode": "parallel",
    "enable_mem_arena": "memory_arena",
    "enable_mem_pattern": "memory_pattern",
}
SESSION_ENTRIES: Final = "session."
"""Keys that begin so are passed on to ONNX Runtime as they are."""
PARAMETERS: Final = ("intra_op_thread_count", "inter_op_thread_count", *_SWITCHES, _SHRINKAGE)
"""The keys that are honoured, beside those of `SESSION_ENTRIES`."""
IDLE_PARAMETERS: Final = (
    "cudnn_conv_algo_search",
    "gpu_mem_limit",
    "arena_extend_strategy",
    "do_copy_in_default_stream",
    "share_session_between_instances",
)
"""Those that have no effect: they are about GPUs; and instances share a session unless `model.yaml` says no."""


def onnx_session(parameters: Mapping[str, str], level: int) -> SessionConfig:
    """The settings. Keys that are not of the backend are for clients to read, as in Triton.

    Raises:
        InvalidConfig: a value is wrong.
    """
    known: dict[str, Any] = {}
    entries: dict[str, str] = {}
    for key, value in parameters.items():
        if key in ("intra_op_thread_count", "inter_op_thread_count"):
            known[key.replace("_thread_count", "_threads")] = count = _count(key, value)
            THREADS.check(f"parameters.{key}", count)
        elif key in _SWITCHES:
            known[_SWITCHES[key]] = _switch(key, value)
        elif key == _SHRINKAGE:
            # A list as `cpu:0;gpu:0`: what it says of other devices is about memory that there is none of.
            known["shrink_arena"] = any(device.strip().startswith("cpu") for device in value.split(";"))
        elif key.startswith(SESSION_ENTRIES):
            entries[key] = value
    return SessionConfig(**known, optimization=_GRAPH_LEVELS.get(level, "all"), entries=entries)


def _count(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise InvalidConfig(f"parameters.{key}: must be an integer >= 0, got {text!r:.100}")
    return int(text)


def _switch(key: str, text: str) -> bool:
    number = _count(key, text)
    if number > 1:
        raise InvalidConfig(f"parameters.{key}: must be 0 or 1, got {text!r}")
    return number == 1

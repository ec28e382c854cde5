"""Numbers too small to matter, and the threads that compute with them.

A denormal operand makes a CPU instruction up to a hundred times slower, and trained weights are full of them. Whether
they are flushed to zero is a bit of each thread's floating-point control register, which a new thread inherits. ONNX
Runtime sets it in its own pool threads, and once in a process in the thread that opens the first session; not in the
thread that calls `run`, where a session of one thread computes. So the instances' threads set it here, and a thread
that merely opens a session keeps its own setting: with the bit set, numpy and others compute differently.

The register is reached through the C library's `fegetenv` and `fesetenv`. On a machine whose layout is not known here
nothing is changed, which costs speed and no correctness.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ENVIRONMENT_BYTES: Final = 64  # more than any `fenv_t` of the layouts below
_LAYOUTS: Final[dict[str, tuple[int, int]]] = {
    "x86_64": (28, 0x8040),  # MXCSR: flush to zero, denormals are zero
    "aarch64": (0, 1 << 24),  # FPCR: flush to zero
}
"""Offset of the control register in `fenv_t`, and the bits to set, by machine."""


def flush_denormals() -> bool:
    """Makes the calling thread take denormals for zero from now on. False where that cannot be done."""
    layout = _LAYOUTS.get(platform.machine()) if sys.platform == "linux" else None
    if layout is None:
        return False
    offset, bits = layout
    environment = _read()
    register = ctypes.c_uint32.from_buffer(environment, offset)
    register.value |= bits
    _write(environment)
    return True


@contextmanager
def denormals_preserved() -> Iterator[None]:
    """Gives the calling thread its own setting back afterwards."""
    before = _read()
    try:
        yield
    finally:
        _write(before)


def _read() -> ctypes.Array[ctypes.c_char]:
    environment = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    _library().fegetenv(environment)
    return environment


def _write(environment: ctypes.Array[ctypes.c_char]) -> None:
    _library().fesetenv(environment)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)

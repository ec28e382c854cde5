"""Anonymous shared memory by file descriptor: `memfd_create`, reserved and sealed.

Rule 1: memory is reserved with `posix_fallocate` when it is made, so that touching it later cannot fail with SIGBUS.
Rule 2: the size is sealed, and who receives a descriptor checks the seal and the size before mapping it: the other
        side cannot shrink the file under our feet.
Rule 3: once both sides have mapped it, it is sealed against `write`: a program that writes to descriptors that are not
        its own (a mapping holds one) changes nothing.
Rule 4: nothing lies in `/dev/shm`, which containers limit to 64 MB.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from typing import Final

from trilith.wire.frames import MalformedFrame

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_SEAL_FUTURE_WRITE: Final = 0x10  # of Linux 5.1; mappings that exist stay writable


def create_memory(name: str, size: int) -> tuple[int, mmap.mmap]:
    """Reserves and maps `size` bytes, zeroed; returns the descriptor (the caller's to close) and the mapping.

    Raises:
        OSError: the system has no room or no `memfd_create`.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        return descriptor, _map(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise


def map_memory(descriptor: int, size: int) -> mmap.mmap:
    """Maps memory that another process created. The descriptor stays the caller's.

    Raises:
        MalformedFrame: it is not of that size, or not sealed.
        OSError: this process has no room for it, or no descriptor (a mapping holds one of its own).
    """
    try:
        found = os.fstat(descriptor).st_size
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise MalformedFrame(f"expected a shared segment: {error}") from error
    if found != size:
        raise MalformedFrame(f"expected a shared segment of {size} bytes, got {found}")
    if not seals & fcntl.F_SEAL_SHRINK:
        raise MalformedFrame("expected a shared segment that is sealed against shrinking")
    memory = _map(descriptor, size)
    with contextlib.suppress(OSError):  # an older kernel
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)
    return memory


def allocate_lazily(size: int) -> memoryview:
    """Writable private memory whose pages are committed only when they are written to.

    A frame header may announce a gigabyte; it costs one only if a gigabyte arrives.

    Raises:
        OSError: there is no address space left.
    """
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def _map(descriptor: int, size: int) -> mmap.mmap:
    # Populated at once: thousands of page faults on the first message would cost more than mapping all of it here.
    return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)

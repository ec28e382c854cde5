"""A worker process in advance, for `--reload`: it has done all of a start that does not depend on what changed.

Rule 1: it imports Trilith and the installed libraries that the application had imported when it last started, none of
    the application's own modules. Then it waits to be told what to run, and is a worker like any other.
Rule 2: whether there is one changes how long a start takes, and nothing else. A library that cannot be imported here,
    or that the application prepares the environment for, is left to the application.

Started by the agent as `python -P -m trilith.orchestration.engine.spare NAME CONTROL_FD PARENT_PID ARGUMENTS`.
"""

from __future__ import annotations

import importlib
import socket
import sys
import sysconfig
from collections.abc import Iterable, Mapping

import msgspec

from trilith.core.logs import configure_logging
from trilith.orchestration.engine.launch import SpareArguments, WorkerArguments

_LONGEST_ORDER = 1 << 20


def libraries_of(modules: Mapping[str, object], before: Iterable[str]) -> list[str]:
    """The installed modules among those that were imported since `before`, in their order."""
    known, places = set(before), sysconfig.get_paths()
    installed = (places["purelib"], places["platlib"])
    found = []
    for name, module in list(modules.items()):
        file = getattr(module, "__file__", None)
        if name not in known and isinstance(file, str) and file.startswith(installed):
            found.append(name)
    return found


def _import_all(libraries: Iterable[str]) -> None:
    for name in libraries:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - a library's affair: the application meets it, if it comes to that
            sys.modules.pop(name, None)


def _order(control_fd: int) -> bytes:
    """What to run, when the agent says it; nothing when it does not need this process. Reads not a byte beyond it."""
    line = bytearray()
    channel = socket.socket(fileno=control_fd)
    try:
        while len(line) < _LONGEST_ORDER:
            octet = channel.recv(1)
            if not octet:
                return b""
            if octet == b"\n":
                return bytes(line)
            line += octet
        return b""
    finally:
        channel.detach()


def main() -> None:
    """Entry point of the process."""
    from trilith.orchestration.engine import worker

    _, control_fd, parent, raw = sys.argv[1:]
    worker.prepare_process(int(control_fd), int(parent))
    spare = msgspec.json.decode(raw, type=SpareArguments)
    configure_logging(spare.log)
    worker.quiet_libraries()
    _import_all(spare.libraries)
    order = _order(int(control_fd))
    if order:
        worker.serve(int(control_fd), msgspec.json.decode(order, type=WorkerArguments))


if __name__ == "__main__":
    main()

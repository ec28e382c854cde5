"""The listening sockets, held by the agent so that they outlive any gateway.

Rule: no SO_REUSEPORT. Two servers on one port would silently share the traffic; the second one must fail and say so.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from pathlib import Path

from trilith.errors import PortInUse, SetupError

_BACKLOG = 1024


def listen_tcp(host: str, port: int, *, option: str) -> socket.socket:
    """A bound and listening TCP socket.

    Args:
        host: an address or name; the first address that it resolves to is used.
        port: 0 lets the system choose.
        option: the command-line option that chooses the port, for the message.

    Raises:
        PortInUse: another process listens there.
        SetupError: the address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SetupError(
            f"--host {host}: no such address ({error.strerror}); use an IP address of this machine"
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"{host}:{port} is taken by another process; stop it, or choose another port with {option}"
            ) from error
        raise SetupError(f"cannot listen on {host}:{port}: {error.strerror}; see --host and {option}") from error
    listener.setblocking(False)
    return listener


def listen_unix(path: Path) -> socket.socket:
    """A bound and listening UNIX stream socket; the path must not exist."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.ExitStack() as undo:
        undo.callback(listener.close)
        listener.bind(str(path))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        undo.pop_all()
    return listener


def address_of(listener: socket.socket) -> tuple[str, int]:
    """Host and port on which a TCP socket really listens."""
    host, port = listener.getsockname()[:2]
    return str(host), int(port)

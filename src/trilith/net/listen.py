"""Listening sockets, bound so that a taken address is an error and never a silent share of the traffic.

Rule 1: SO_REUSEPORT only for who asks: two servers on one port would deal the traffic out between them unseen.
Rule 2: a name stands for all its addresses. One that this machine does not have is left out while another is bound:
        `localhost` names ::1 on machines without IPv6 too.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig, PortInUse, SetupError

_BACKLOG: Final = 1024
_LONGEST_PATH_BYTES: Final = 107
_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def listen_tcp(
    host: str, port: int, *, reuse_port: bool = False, choice: str = "another port (0 for any free one)"
) -> list[socket.socket]:
    """A listening socket for each address of `host`.

    Args:
        host: name or address; "localhost" usually gives 127.0.0.1 and ::1.
        port: port number; 0 lets the system choose one, the same for all addresses.
        reuse_port: lets several processes listen on the port, the kernel deals connections out (SO_REUSEPORT).
        choice: what a person may choose instead of a port that is taken, for the message.

    Raises:
        PortInUse: another process listens there.
        InvalidConfig: the host does not exist, or is not an address of this machine.
        SetupError: the system does not allow it, such as a port below 1024.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, OverflowError) as error:
        raise InvalidConfig(f"cannot listen on {host}:{port}: {error}. Give a host of this machine") from error
    with contextlib.ExitStack() as undo:
        bound: list[socket.socket] = []
        missing: OSError | None = None
        for family, kind, protocol, _, address in dict.fromkeys(found):
            chosen = bound[0].getsockname()[1] if bound else port
            try:
                listening = _bind(family, kind, protocol, (address[0], chosen, *address[2:]), reuse_port=reuse_port)
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise _refusal(error, f"{address[0]}:{chosen}", choice) from error
                missing = error
                continue
            bound.append(undo.enter_context(listening))
        if missing is not None and not bound:
            raise _refusal(missing, f"{host}:{port}", choice) from missing
        undo.pop_all()
    return bound


def listen_unix(path: str | Path) -> socket.socket:
    """A listening UNIX stream socket for this user only. The file of a process that is gone is replaced.

    Raises:
        PortInUse: another process listens at the path, or something else is there.
        InvalidConfig: the path is too long for a socket's.
    """
    address = checked_path(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(address)
        listening.bind(address)
        Path(address).chmod(0o600)  # before it listens: nobody else gets in between
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise PortInUse(f"cannot listen at {address}: {error}; choose another path or stop who uses it") from error
    return listening


def shown(listening: Sequence[socket.socket]) -> str:
    """`host:port` of the first of the sockets, as it was really bound."""
    host, port = listening[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def checked_path(path: str | Path) -> str:
    """The path of a UNIX socket.

    Raises:
        InvalidConfig: it is empty or longer than the system allows.
    """
    address = str(path)
    if not 0 < len(address.encode()) <= _LONGEST_PATH_BYTES:
        raise InvalidConfig(
            f"socket path: expected 1 to {_LONGEST_PATH_BYTES} bytes, got {address!r}; use a shorter folder"
        )
    return address


def _bind(family: int, kind: int, protocol: int, address: tuple[str | int, ...], *, reuse_port: bool) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT of a predecessor is no obstacle
        if reuse_port:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _refusal(error: OSError, address: str, choice: str) -> SetupError:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(f"cannot listen on {address}: another process listens there. Stop it, or choose {choice}")
    if error.errno in _NOT_HERE:
        return InvalidConfig(f"cannot listen on {address}: it is not an address of this machine")
    return SetupError(f"cannot listen on {address}: {error.strerror}")


def _remove_stale(address: str) -> None:
    """Removes the socket file of a process that is gone; leaves everything else alone."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe,
        contextlib.suppress(FileNotFoundError),
    ):  # there is none
        probe.setblocking(False)
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            if Path(address).is_socket():
                Path(address).unlink()

"""Listening sockets, bound so that a taken port is an error and never a silent share of the traffic."""

from __future__ import annotations

import errno
import socket

from trilith.errors import InvalidConfig, PortInUse, SetupError

_BACKLOG = 1024


def bind_sockets(host: str, port: int, *, reuse_port: bool = False) -> list[socket.socket]:
    """Opens a listening socket for each address of `host`.

    Args:
        host: name or address; "localhost" usually gives 127.0.0.1 and ::1.
        port: port number; 0 lets the system choose one, the same for all addresses.
        reuse_port: lets several processes listen on the port, the kernel deals connections out (SO_REUSEPORT).

    Raises:
        PortInUse: another process listens there.
        InvalidConfig: the host does not exist, or is not an address of this machine.
        SetupError: the system does not allow it, such as a port below 1024.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, OverflowError) as error:
        raise InvalidConfig(f"cannot listen on {host}:{port}: {error}. Give a host of this machine") from error
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            chosen = bound[0].getsockname()[1] if bound else port
            bound.append(_bind(family, kind, protocol, (address[0], chosen, *address[2:]), reuse_port=reuse_port))
    except BaseException:
        for listening in bound:
            listening.close()
        raise
    return bound


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
    except OSError as error:
        listening.close()
        raise _setup_error(error, f"{address[0]}:{address[1]}") from error
    return listening


def _setup_error(error: OSError, address: str) -> SetupError:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(
            f"cannot listen on {address}: another process listens there. "
            "Stop it, or choose another port (0 for any free one)"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return InvalidConfig(f"cannot listen on {address}: it is not an address of this machine")
    return SetupError(f"cannot listen on {address}: {error.strerror}")

"""How two processes get connected: a listening UNIX socket on one side, a path on the other.

Rule 1: callbacks are set before the first byte is read, so no early call is missed.
Rule 2: the socket file is for this user only.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig, SetupError
from trilith.net.listen import checked_path, listen_unix
from trilith.net.transport.config import PeerConfig, checked_grant
from trilith.net.transport.owner import LOG
from trilith.net.transport.peer import Peer

_ACCEPT_AGAIN_S: Final = 1.0
_NO_SOCKET: Final = "cannot connect to {}: {} (see ulimit -n)"

Prepare = Callable[[Peer], None]


def peer_from_socket(
    sock: socket.socket, *, grant: int, prepare: Prepare | None = None, config: PeerConfig | None = None
) -> Peer:
    """A started peer on a connected UNIX stream socket, which it owns from here on.

    Args:
        grant: how many calls this side takes at a time, 0 to 4096.
        prepare: sets the peer's callbacks; called before anything is read.

    Raises:
        InvalidConfig: the grant is out of range.
        OSError: this process has no free file descriptors.
    """
    try:
        peer = Peer(sock, grant=grant, config=config)
    except (InvalidConfig, OSError):
        sock.close()
        raise
    try:
        if prepare is not None:
            prepare(peer)
    except BaseException:
        peer.abort()
        raise
    peer.start()
    return peer


async def connect(
    path: str | Path,
    *,
    grant: int,
    prepare: Prepare | None = None,
    config: PeerConfig | None = None,
    timeout_s: float = 10.0,
) -> Peer:
    """Connects to a `Listener` and returns when both sides know each other's grant.

    Args:
        path: of the listening socket.
        grant: how many calls this side takes at a time; with 0 none come until `peer.grant` is raised.
        prepare: sets the peer's callbacks; called before anything is read.
        timeout_s: seconds for all of it.

    Raises:
        SetupError: nobody listens there, or who does is no Trilith process of this version; or this process has no
            free file descriptors.
        InvalidConfig: the grant or the path is not possible.
    """
    address = checked_path(path)
    checked_grant(grant)
    loop = asyncio.get_running_loop()
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise SetupError(_NO_SOCKET.format(address, error)) from error
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout_s):
            await loop.sock_connect(sock, address)
    except (OSError, TimeoutError) as error:
        sock.close()
        raise SetupError(
            f"expected a Trilith process to listen at {address}: {str(error) or 'no answer in time'}"
        ) from error
    except asyncio.CancelledError:
        sock.close()
        raise
    try:
        peer = peer_from_socket(sock, grant=grant, prepare=prepare, config=config)
    except OSError as error:
        raise SetupError(_NO_SOCKET.format(address, error)) from error
    try:
        async with asyncio.timeout(timeout_s):
            await peer.wait_greeted()
    except (TimeoutError, asyncio.CancelledError) as error:
        peer.abort()
        if isinstance(error, asyncio.CancelledError):
            raise
        raise SetupError(f"the process that listens at {address} did not answer in {timeout_s} s") from error
    if peer.closed:
        raise SetupError(f"the process that listens at {address} ended the connection: {peer.lost_reason}")
    return peer


class Listener:
    """Accepts connections. Peers that were handed out live on when it is closed.

    Args:
        on_peer: gets each new peer and sets its callbacks; called before anything is read. The other side's grant is
            not known yet: `peer.on_credits` or `peer.wait_greeted()` tells.
        grant: how many calls this side takes at a time from each peer.

    Raises:
        InvalidConfig: the grant is out of range.
    """

    def __init__(self, on_peer: Prepare, *, grant: int, config: PeerConfig | None = None) -> None:
        self._on_peer = on_peer
        self._grant = checked_grant(grant)
        self._config = config
        self._socket: socket.socket | None = None
        self._path: Path | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failing = False  # and the log has it

    def start(self, listen_on: str | Path | socket.socket) -> None:
        """Begins to accept, on the running loop.

        Args:
            listen_on: a path, or a UNIX socket that listens already (it is closed by `close`, its file is not removed).

        Raises:
            PortInUse: another process listens at the path.
            InvalidConfig: the path is not possible.
        """
        if isinstance(listen_on, socket.socket):
            sock = listen_on
        else:
            sock = listen_unix(listen_on)
            self._path = Path(listen_on)
        sock.setblocking(False)
        self._socket = sock
        self._loop = asyncio.get_running_loop()
        self._listen()

    def close(self) -> None:
        """Stops accepting and removes the socket file that `start` made. Idempotent."""
        if self._socket is None or self._loop is None:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _listen(self) -> None:
        if self._socket is not None and self._loop is not None:
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)

    def _pause(self) -> None:
        if self._socket is not None and self._loop is not None:
            if not self._failing:
                LOG.exception("cannot accept worker connections; trying again every %s s", _ACCEPT_AGAIN_S)
                self._failing = True
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(_ACCEPT_AGAIN_S, self._listen)

    def _on_acceptable(self) -> None:
        if self._socket is None:
            return
        try:
            sock, _ = self._socket.accept()
            peer_from_socket(sock, grant=self._grant, prepare=self._on_peer, config=self._config)
            self._failing = False
        except (BlockingIOError, ConnectionError):  # the client went away again
            return
        except OSError:
            # No descriptors or memory. The socket stays readable: asking again at once would only burn the processor.
            self._pause()

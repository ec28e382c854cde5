"""Two ends of one worker connection in one process."""

from __future__ import annotations

import socket
from collections.abc import Callable

from trilith.net.transport import Peer, PeerConfig, peer_from_socket


async def linked_peers(
    *,
    grants: tuple[int, int] = (32, 32),
    prepare: Callable[[Peer], None] | None = None,
    prepare_other: Callable[[Peer], None] | None = None,
    config: PeerConfig | None = None,
) -> tuple[Peer, Peer]:
    """Two started peers, joined by a socket pair on the running loop, that know each other's grant.

    Args:
        grants: how many calls the first and the second take at a time.
        prepare: sets callbacks of the first, before anything is read.
        prepare_other: the same for the second.
        config: of both.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    first = peer_from_socket(near, grant=grants[0], prepare=prepare, config=config)
    second = peer_from_socket(far, grant=grants[1], prepare=prepare_other, config=config)
    await first.wait_greeted()
    await second.wait_greeted()
    return first, second

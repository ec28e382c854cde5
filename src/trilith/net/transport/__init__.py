"""The transport between gateway and workers: calls in frames over a UNIX socket, large buffers in shared memory.

    peer = await connect(path, grant=8, prepare=set_callbacks)     # or Listener(on_peer, grant=64).start(path)
    peer.call(meta, [tensor], on_reply, deadline=...)
    stream = peer.open(meta, [], on_reply, on_item, window=Window())    # see `streams`: calls with items

The bytes are defined in `trilith.wire.frames`; twins for tests are in `trilith.testing.transport`.
"""

from trilith.net.transport.calls import IncomingCall, LostCall, PeerStatistics, Reply
from trilith.net.transport.config import PeerConfig, SharedMemoryConfig, SizeClass
from trilith.net.transport.connect import Listener, connect, peer_from_socket
from trilith.net.transport.peer import Peer
from trilith.net.transport.streams import CallStream, IncomingStream, Item
from trilith.wire.frames import Buffer, FrameLimits
from trilith.wire.windows import Window

__all__ = [
    "Buffer",
    "CallStream",
    "FrameLimits",
    "IncomingCall",
    "IncomingStream",
    "Item",
    "Listener",
    "LostCall",
    "Peer",
    "PeerConfig",
    "PeerStatistics",
    "Reply",
    "SharedMemoryConfig",
    "SizeClass",
    "Window",
    "connect",
    "peer_from_socket",
]

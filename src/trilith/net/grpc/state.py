"""What the connections of one server share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Container, Coroutine
from typing import TYPE_CHECKING, Any

from trilith.net.grpc.call import GrpcCall
from trilith.net.grpc.limits import GrpcLimits
from trilith.net.grpc.statistics import GrpcCounters
from trilith.net.held_bytes import HeldBytes
from trilith.wire.grpc_compression import GrpcCompression

if TYPE_CHECKING:
    from trilith.net.grpc.connection import GrpcConnection

Answer = Coroutine[Any, Any, None] | None
"""What goes on with a call: see `GrpcApp`."""

Admit = Callable[[GrpcCall], None]
"""Asked with the head of each call, before its messages are read: raises a `TrilithError` when it may not pass."""

GrpcApp = Callable[[GrpcCall], Answer]
"""Called on the loop's thread when a call's message is complete, or with the head of a call to one of the methods that
take several messages. It returns None when it has answered, or will answer
later by `reply` or `fail` (no task is made: the fast path), or a coroutine, which runs as a task and is cancelled when
the call is. An exception becomes a status: a `TrilithError` its own, anything else INTERNAL without detail."""


class ServerState:
    """One server's application, bounds, counts and open connections."""

    __slots__ = (
        "_id_prefix",
        "_id_sequence",
        "admit",
        "app",
        "changed",
        "compression",
        "connections",
        "counters",
        "draining",
        "held",
        "limits",
        "loop",
        "streaming",
        "tasks",
    )

    def __init__(
        self,
        app: GrpcApp,
        limits: GrpcLimits,
        loop: asyncio.AbstractEventLoop,
        streaming: Container[bytes] = (),
        compression: GrpcCompression | None = None,
        admit: Admit | None = None,
        held: HeldBytes | None = None,
    ) -> None:
        most = limits.max_buffered_bytes
        self.held = held if held is not None else HeldBytes(most, most)
        """The bound on what is kept for clients."""
        self.app = app
        self.admit = admit
        self.compression = compression
        self.streaming = streaming
        """Paths of the methods whose clients may send several messages."""
        self.limits = limits
        self.loop = loop
        self.counters = GrpcCounters()
        self.connections: set[GrpcConnection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """Handlers that run, those of cancelled calls included until they have ended."""
        self.draining = False
        self.changed = asyncio.Event()
        """Set when a connection ended, or began to refuse calls."""
        self._id_prefix = secrets.token_hex(6) + "-"
        self._id_sequence = 0

    @property
    def buffered_bytes(self) -> int:
        """Octets that are held now."""
        return self.held.held_bytes

    def next_request_id(self) -> str:
        """A request id that is unique to this server's life, and unlikely anywhere else."""
        self._id_sequence += 1
        return f"{self._id_prefix}{self._id_sequence:x}"

    def room(self) -> int:
        """How many connections more may be open."""
        return self.limits.max_connections - len(self.connections)

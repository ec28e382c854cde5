"""The settings of one connection between a gateway and a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trilith.errors import InvalidConfig
from trilith.net.transport.accept_board import MAX_CALLS
from trilith.wire.frames import FrameLimits

KIB: Final = 1024
MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Slots of one size: a segment of this class has `slots` (at most 64) of `slot_bytes` each, a multiple of 4 KiB."""

    slot_bytes: int
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemoryConfig:
    """How large buffers travel.

    Attributes:
        threshold_bytes: buffers from this size on travel through shared memory, smaller ones in the frame.
        total_bytes: bound on what this side creates for one connection; 0 turns shared memory off.
        idle_s: a segment that was not used for so long is given back.
        retry_s: after the system refused memory, none is asked for during so long.
        max_mapped_bytes: bound on what the other side may announce.
        size_classes: ascending by slot size. A buffer larger than the largest slot travels in the frame.
    """

    threshold_bytes: int = 64 * KIB
    total_bytes: int = 256 * MIB
    idle_s: float = 30.0
    retry_s: float = 1.0
    max_mapped_bytes: int = 1024 * MIB
    size_classes: tuple[SizeClass, ...] = (
        SizeClass(slot_bytes=128 * KIB, slots=16),
        SizeClass(slot_bytes=1 * MIB, slots=8),
        SizeClass(slot_bytes=4 * MIB, slots=4),
        SizeClass(slot_bytes=16 * MIB, slots=1),
        SizeClass(slot_bytes=64 * MIB, slots=1),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """One end of a connection.

    Attributes:
        limits: of one frame, both ways.
        shared_memory: how large buffers travel.
        heartbeat_interval_s: after so long without sending, a heartbeat is sent; 0 leaves `Peer.tick` to the owner.
        high_water_bytes: above so many unsent bytes the peer is not `writable` and offers no credits.
        max_unsent_bytes: above so many the other side is taken for dead and the connection is ended.
    """

    limits: FrameLimits = field(default_factory=FrameLimits)
    shared_memory: SharedMemoryConfig = field(default_factory=SharedMemoryConfig)
    heartbeat_interval_s: float = 1.0
    high_water_bytes: int = 4 * MIB
    max_unsent_bytes: int = 2048 * MIB


def checked_grant(calls: int) -> int:
    """The grant itself.

    Raises:
        InvalidConfig: it is not 0 to 4096.
    """
    if not 0 <= calls <= MAX_CALLS:
        raise InvalidConfig(f"grant: expected 0 to {MAX_CALLS} calls at a time on one connection, got {calls}")
    return calls

"""The socket of one connection: reads into the frame reader, writes pieces in order, passes descriptors.

Rule 1: the loop only says when the socket is ready; reading and writing are done here. That costs what uvloop's own
        transports cost, receives bodies straight into their final memory, and lets descriptors travel in the stream
        (a stream protocol never sees them).
Rule 2: what is written within one loop turn leaves in few writes: at the end of the turn, and whenever a handful waits,
        so that the other side works on the first while this one makes the next. Order is kept always.
Rule 3: a descriptor leaves with the first bytes that are sent after it was added, so it never arrives after its frame.
Rule 4: a failed write does not end the connection: what the other side sent before it died is still read, to the end.
"""

from __future__ import annotations

import array
import asyncio
import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from trilith.core import forks
from trilith.wire.frame_reader import FrameReader
from trilith.wire.frames import Buffer, Frame

MAX_UNSENT_DESCRIPTORS: Final = 32

_JOIN_BYTES: Final = 128 * 1024  # up to here one copy is cheaper than a vector of small pieces
# Two processes that hand each other everything at the end of a turn work by turns: one waits while the other works.
# On two cores with 32 calls in flight that cost a third of the calls a second; the additional writes take 0.5 us each.
_WRITE_AT_PIECES: Final = 16
_MAX_PIECES: Final = 512  # well under the system's IOV_MAX of 1024
_MAX_RECEIVED_DESCRIPTORS: Final = 2 * MAX_UNSENT_DESCRIPTORS
_DESCRIPTOR_BYTES: Final = array.array("i").itemsize
_TRUNCATED: Final = int(socket.MSG_CTRUNC)  # the flag itself is an enum, whose `&` takes longer than the read
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(MAX_UNSENT_DESCRIPTORS * _DESCRIPTOR_BYTES)
_READ_AFTER_WRITE_FAILED_S: Final = 1.0


class Channel:
    """One connected UNIX stream socket on the running loop.

    Args:
        sock: connected; this object owns it from here on.
        reader: cuts what arrives.
        on_frames: gets the frames of one read, with the instant of that read.
        on_end: called once when no more will be read, with the reason and whether the other side broke the protocol;
            not called by `close`.
        on_written: called when unsent bytes became fewer, with the number of bytes by which they did; never within
            `send`, whose caller may be halfway through a frame.

    Attributes:
        unsent_bytes: handed over and not yet taken by the system.
        last_heard_at: the instant of the last read that brought something.
        last_sent_at: the instant of the last write.
    """

    def __init__(
        self,
        sock: socket.socket,
        reader: FrameReader,
        *,
        on_frames: Callable[[list[Frame], float], None],
        on_end: Callable[[str, bool], None],
        on_written: Callable[[int], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._fileno = sock.fileno()
        # The loop watches this instead of the socket. A socket whose other side died with unread data reports an error,
        # and libuv stops polling such a one after one callback: its last words and its end might never be read.
        self._readiness = select.epoll()
        for descriptor in (self._fileno, self._readiness.fileno()):
            forks.guard(descriptor)
        self._reader = reader
        self._on_frames = on_frames
        self._on_end = on_end
        self._on_written = on_written
        self._pieces: deque[Buffer] = deque()
        self._descriptors: list[int] = []
        # Where in the stream those frames end whose descriptors may be ahead of them: bounds what the reader must hold.
        self._descriptor_frame_ends: deque[int] = deque()
        self._received_descriptors: deque[int] = deque()
        self._flush_is_due = False
        self._blocked = False
        self._write_failed = False
        self._closed = False
        self._unreported_bytes = 0
        self.unsent_bytes = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.last_heard_at = self.last_sent_at = time.monotonic()

    def start(self) -> None:
        """Begins to read."""
        self._socket.setblocking(False)
        self._readiness.register(self._fileno, select.EPOLLIN)
        self._loop.add_reader(self._readiness.fileno(), self._on_readable)

    def send(self, piece: Buffer) -> None:
        """Writes at the end of this loop turn at the latest. The piece must not change until it is sent."""
        if self._closed or self._write_failed:
            return
        pieces = self._pieces
        pieces.append(piece)
        self.unsent_bytes += len(piece)
        if not self._flush_is_due:
            if not self._blocked:
                self._flush_is_due = True
                self._loop.call_soon(self.flush)
        elif len(pieces) >= _WRITE_AT_PIECES:
            self._write_waiting()

    def send_descriptor(self, piece: Buffer, descriptor: int) -> bool:
        """Writes a frame with a descriptor beside it; closes the descriptor when it is sent.

        Returns:
            Whether it will be sent. False when too many such frames wait; then the descriptor is closed and nothing
            is written.
        """
        frame_ends = self._descriptor_frame_ends
        while frame_ends and frame_ends[0] <= self.sent_bytes:
            frame_ends.popleft()
        if self._closed or self._write_failed or len(frame_ends) >= MAX_UNSENT_DESCRIPTORS:
            os.close(descriptor)
            return False
        self._descriptors.append(descriptor)
        self.send(piece)
        frame_ends.append(self.sent_bytes + self.unsent_bytes)
        return True

    def take_descriptor(self) -> int | None:
        """The oldest received descriptor, now the caller's to close; None when there is none."""
        return self._received_descriptors.popleft() if self._received_descriptors else None

    def flush(self) -> None:
        """Writes what is waiting, as much as the system takes now."""
        self._flush_is_due = False
        self._write_waiting()
        self._report_written()

    def _write_waiting(self) -> None:
        if self._blocked or not self._pieces:
            return
        self._write()
        if self._pieces and not self._blocked:
            self._blocked = True
            self._loop.add_writer(self._fileno, self._on_writable)

    def close(self) -> None:
        """Closes the socket at once; what is unsent is lost. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._readiness.fileno())
        for descriptor in (self._fileno, self._readiness.fileno()):
            forks.release(descriptor)
        self._readiness.close()
        self._forget_unsent()
        for descriptor in self._received_descriptors:
            os.close(descriptor)
        self._received_descriptors.clear()
        self._socket.close()

    def _on_readable(self) -> None:
        try:
            size, ancillary, flags, _ = self._socket.recvmsg_into((self._reader.buffer(),), _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(f"reading failed: {error}")
            return
        if ancillary or flags & _TRUNCATED:
            self._take_descriptors(ancillary)
            if flags & _TRUNCATED or len(self._received_descriptors) > _MAX_RECEIVED_DESCRIPTORS:
                self._end(
                    "descriptors were lost: this process has no free ones (see ulimit -n), or too many were sent", True
                )
                return
        if size == 0:
            self._end("the other side closed the connection")
            return
        now = time.monotonic()
        self.last_heard_at = now
        self.received_bytes += size
        frames = self._reader.received(size)
        if frames:
            self._on_frames(frames, now)
        if self._reader.failure is not None:
            self._end(f"malformed frame: {self._reader.failure}", True)

    def _take_descriptors(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i", content[: len(content) - len(content) % _DESCRIPTOR_BYTES])
                self._received_descriptors.extend(descriptors)

    def _on_writable(self) -> None:
        self._write()
        if not self._pieces and self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._fileno)
        self._report_written()

    def _report_written(self) -> None:
        written, self._unreported_bytes = self._unreported_bytes, 0
        if written:
            self._on_written(written)

    def _write(self) -> None:
        try:
            sent = self._send_some()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # The other side is gone, or going: the reader finds the end after the last thing that was sent.
            self._write_failed = True
            self._forget_unsent()
            self._loop.call_later(_READ_AFTER_WRITE_FAILED_S, self._end, "writing failed")
            return
        self.last_sent_at = time.monotonic()
        self.sent_bytes += sent
        self.unsent_bytes -= sent
        self._unreported_bytes += sent

    def _send_some(self) -> int:
        """Sends once; removes from `_pieces` what was taken."""
        pieces = self._pieces
        if self._descriptors:
            sent = socket.send_fds(self._socket, self._first_pieces(), self._descriptors)
            for descriptor in self._descriptors:
                os.close(descriptor)
            self._descriptors.clear()
        elif len(pieces) == 1:
            sent = self._socket.send(pieces[0])
        elif self.unsent_bytes <= _JOIN_BYTES:
            joined = b"".join(pieces)
            sent = self._socket.send(joined)
            pieces.clear()
            if sent < len(joined):
                pieces.append(memoryview(joined)[sent:])
            return sent
        else:
            sent = self._socket.sendmsg(self._first_pieces())
        self._remove(sent)
        return sent

    def _first_pieces(self) -> list[Buffer]:
        return [piece for piece, _ in zip(self._pieces, range(_MAX_PIECES), strict=False)]

    def _remove(self, sent: int) -> None:
        pieces = self._pieces
        while sent:
            piece = pieces.popleft()
            size = len(piece)
            if size > sent:
                pieces.appendleft(memoryview(piece)[sent:])
                return
            sent -= size

    def _forget_unsent(self) -> None:
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._fileno)
        self._pieces.clear()
        self.unsent_bytes = 0
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def _end(self, reason: str, broken: bool = False) -> None:
        if self._closed:
            return
        self.close()
        self._on_end(reason, broken)

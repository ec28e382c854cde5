"""How the agent and its child processes talk: one JSON object a line over a socket pair.

Rule: this channel carries orders and events (`control`), never requests. A few lines a second at most.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import msgspec

from trilith.errors import Bug
from trilith.orchestration.engine.control import AnyMessage

_LIMIT_BYTES = 64 << 20  # an application's description with all its schemas is one line


class ControlChannel:
    """One end of the control socket pair. Created inside a running loop by `open_channel`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)

    def send(self, message: AnyMessage) -> None:
        """Queues a message. When the other end is gone it is dropped: its exit is seen elsewhere."""
        if not self._writer.is_closing():
            self._writer.write(self._encoder.encode(message) + b"\n")

    def send_raw(self, line: bytes) -> None:
        """Queues what is no message: the order to a worker that waits for it."""
        if not self._writer.is_closing():
            self._writer.write(line + b"\n")

    async def messages(self) -> AsyncIterator[AnyMessage]:
        """The other end's messages until it closes.

        Raises:
            Bug: a line is no message of this protocol, or is longer than any of them.
        """
        while True:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                return
            except ValueError as error:  # so asyncio calls a line that is longer than the limit
                raise Bug(f"a control message has more than {_LIMIT_BYTES >> 20} MiB; please report this") from error
            if not line.endswith(b"\n"):
                return
            try:
                message = self._decoder.decode(line)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise Bug(f"a control message cannot be read: {error}; please report this") from error
            yield message

    async def flush(self) -> None:
        """Waits until what was sent is with the kernel; for a process that is about to exit."""
        self._writer.transport.set_write_buffer_limits(high=0)
        try:
            await self._writer.drain()
        except ConnectionError:
            return  # nobody is left to read it

    def close(self) -> None:
        """Closes this end; queued messages are still sent."""
        self._writer.close()


async def open_channel(end: socket.socket) -> ControlChannel:
    """Wraps one end of a socket pair."""
    end.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=end, limit=_LIMIT_BYTES)
    return ControlChannel(reader, writer)

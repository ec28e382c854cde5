"""Passes one request on to a command's process, and its answer back, both piece by piece.

Rule 1: nothing is kept whole: a piece is read when the one before it has been taken.
Rule 2: the answer may come while the request still goes, and ends it. When its client goes away the connection is
    closed at once, so the process sees it.
Rule 3: a request is sent again only when a kept connection turned out to have ended, nothing of an answer had come (or
    408, which servers say to a connection that has waited for too long), and sending it twice does no harm: it has no
    body, and a method of which HTTP says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final, Protocol

from trilith.errors import NoReadyReplica, ReplicaLost, ServiceError
from trilith.service.command.headers import Asked, RequestHead, request_head
from trilith.service.command.running import RunningCommand
from trilith.service.command.upstream import Connection
from trilith.wire.http1.answer_reader import AnswerReader
from trilith.wire.http1.passed_headers import Header, end_to_end

_PIECE_BYTES: Final = 1 << 16
_TIMED_OUT: Final = 408


class Bodies(Protocol):
    """The other side: where the body of the request comes from, and the answer goes to."""

    async def receive(self) -> bytes | None:
        """The next piece of the body; None: that was all."""
        ...

    async def start(self, status: int, headers: Iterable[Header] = ()) -> None:
        """Says the head of the answer."""
        ...

    async def send(self, data: bytes) -> None:
        """Sends a piece of the answer's body; returns when another one may follow."""
        ...

    async def finish(self, data: bytes = b"") -> None:
        """Sends the last piece, and ends the answer."""
        ...


async def relay(asked: Asked, bodies: Bodies, command: RunningCommand, name: str) -> None:
    """Passes one request on. `name`: of the service.

    Raises:
        NoReadyReplica: the process takes no connection.
        ReplicaLost: it broke the connection off.
        ServiceError: what it answered is no HTTP.
    """
    head = request_head(asked)
    command.held += 1
    try:
        if not await _tried(asked, head, bodies, command, name, fresh=False):
            await _tried(asked, head, bodies, command, name, fresh=True)
    finally:
        command.held -= 1


async def _tried(
    asked: Asked, head: RequestHead, bodies: Bodies, command: RunningCommand, name: str, *, fresh: bool
) -> bool:
    """Passes the request on over one connection; False: it had ended, and the request may be sent over another."""
    connection = await connected(command, name, fresh=fresh)
    answer = AnswerReader(has_body=asked.method != "HEAD")
    connection.writer.write(head.octets)
    sending = asyncio.create_task(_send_body(bodies, connection, head)) if head.has_body else None
    reusable = False
    try:
        pieces = await read_head(connection, answer, name)
        if pieces is None:
            if connection.used and head.repeatable:
                return False
            raise lost(command, name, "before it answered")
        if answer.status == _TIMED_OUT and connection.used and head.repeatable:
            return False
        if answer.upgraded:
            raise ServiceError(f"{name}: its process answered 101, which nobody had asked for")
        await bodies.start(answer.status, end_to_end(answer.headers))
        while True:
            last = pieces.pop() if answer.complete and pieces else b""
            for piece in pieces:
                await bodies.send(piece)
            if answer.complete:
                break
            octets = await read_some(connection)
            if not octets and not answer.connection_ended():
                raise lost(command, name, "in the middle of its answer")
            pieces = pieces_of(answer, octets, name)
        await bodies.finish(last)
        reusable = answer.reusable and (sending is None or (sending.done() and sending.result()))
    except ReplicaLost:
        if sending is not None and sending.done():
            sending.result()  # the client's body broke off, which is why we closed
        raise
    finally:
        if sending is not None:
            sending.cancel()
        if reusable:
            command.upstream.give_back(connection)
        else:
            connection.close()
    return True


async def _send_body(bodies: Bodies, connection: Connection, head: RequestHead) -> bool:
    """Sends the body; whether the process took all of it: it may answer without having read it."""
    while True:
        try:
            piece = await bodies.receive()
        except BaseException:
            connection.close()  # whoever waits for the answer sees that it will not come
            raise
        last = b"0\r\n\r\n" if head.chunked else b""
        octets = last if not piece else b"%x\r\n%b\r\n" % (len(piece), piece) if head.chunked else piece
        try:
            connection.writer.write(octets)
            await connection.writer.drain()
        except OSError:
            return False
        if not piece:
            return True


async def connected(command: RunningCommand, name: str, *, fresh: bool = False) -> Connection:
    """A connection to the process.

    Raises:
        NoReadyReplica: it takes none.
    """
    try:
        return await command.upstream.take(fresh=fresh)
    except OSError as error:
        why = command.how_it_ended or f"it takes no connection ({error.strerror or error})"
        raise NoReadyReplica(f"the process of {name} could not be asked: {why}") from error


def lost(command: RunningCommand, name: str, when: str) -> ReplicaLost:
    """The error for a connection that the process broke off."""
    how = f" ({command.how_it_ended})" if command.how_it_ended else ""
    return ReplicaLost(
        f"the process of {name} ended the connection {when}{how}; it may have done the work, so the request is not"
        " sent again"
    )


async def read_some(connection: Connection) -> bytes:
    """What came; b"" at the end of the connection, however it ended."""
    with contextlib.suppress(OSError):
        return await connection.read(_PIECE_BYTES)
    return b""


async def read_head(connection: Connection, answer: AnswerReader, name: str) -> list[bytes] | None:
    """Reads the head of the answer; the pieces of the body that came with it, or None: nothing came.

    Raises:
        ServiceError: it is no HTTP.
    """
    while True:
        octets = await read_some(connection)
        if not octets:
            return None
        pieces = pieces_of(answer, octets, name)
        if answer.status:
            return pieces


def pieces_of(answer: AnswerReader, octets: bytes, name: str) -> list[bytes]:
    """The pieces of the body in what came.

    Raises:
        ServiceError: it is no HTTP.
    """
    if not octets:
        return []
    try:
        return answer.push(octets)
    except ValueError as error:
        raise ServiceError(f"{name}: of its process: {error}") from error

"""Passes a websocket on to a command's process, messages either way.

Rule 1: the client is accepted when the process has accepted, with the subprotocol that it chose; what it refuses is
    refused with its status.
Rule 2: a message goes on when the other side has room for it. A close goes on with its code and reason; a process that
    vanishes is 1011 to the client, a client that vanishes is 1001 to the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

from trilith.core.header_fields import is_servers_own
from trilith.errors import ServiceError
from trilith.service.command.headers import Asked, request_head
from trilith.service.command.relay import connected, lost, pieces_of, read_head, read_some
from trilith.service.command.running import RunningCommand
from trilith.service.command.upstream import Connection
from trilith.service.mounts.exchange import ClientGone
from trilith.service.mounts.exchange_port import SocketPort
from trilith.service.mounts.socket import SocketClosed
from trilith.wire.http1.answer_reader import AnswerReader
from trilith.wire.http1.passed_headers import end_to_end
from trilith.wire.relayed_websocket import NONCE_BYTES, Closed, Opening, RelayedWebSocket
from trilith.wire.websocket import FAILED, GOING_AWAY, LOST, NO_CODE, NORMAL

_SWITCHING: Final = 101
_OWN: Final = b"sec-websocket-"
_PROTOCOL: Final = b"sec-websocket-protocol"
_CLOSES_WITHIN_S: Final = 5.0
_LONGEST_REFUSAL_BYTES: Final = 1 << 16
_LONGEST_MESSAGE_BYTES: Final = 64 << 20


async def relay_socket(asked: Asked, exchange: SocketPort, command: RunningCommand, name: str) -> None:
    """Passes one websocket on. `name`: of the service.

    Raises:
        NoReadyReplica: the process takes no connection.
        ReplicaLost: it broke the connection off during the handshake.
        ServiceError: what it answered is no HTTP, or no websocket.
    """
    opening = Opening(os.urandom(NONCE_BYTES), exchange.head.subprotocols)
    connection = await connected(command, name, fresh=True)
    command.held += 1
    try:
        connection.writer.write(request_head(asked, more=opening.headers).octets)
        answer = AnswerReader()
        pieces = await read_head(connection, answer, name)
        if pieces is None:
            raise lost(command, name, "during the handshake of a websocket")
        if answer.status != _SWITCHING:
            await _refuse(exchange, connection, answer, pieces, name)
            return
        wrong = opening.why_not(answer.headers)
        if wrong:
            raise ServiceError(f"{name}: its process accepted a websocket with {wrong}")
        chosen = next((value.decode("latin-1") for key, value in answer.headers if key == _PROTOCOL), None)
        headers = [
            header
            for header in end_to_end(answer.headers)
            if not is_servers_own(header[0]) and not header[0].startswith(_OWN)
        ]
        await exchange.accept(chosen, headers)
        socket = RelayedWebSocket(max_message_bytes=_LONGEST_MESSAGE_BYTES)
        await _both_ways(exchange, connection, socket, answer.rest)
    finally:
        command.held -= 1
        connection.close()


async def _refuse(
    exchange: SocketPort, connection: Connection, answer: AnswerReader, pieces: list[bytes], name: str
) -> None:
    while not answer.complete and sum(map(len, pieces)) < _LONGEST_REFUSAL_BYTES:
        octets = await read_some(connection)
        if not octets:
            break
        pieces += pieces_of(answer, octets, name)
    headers = [header for header in end_to_end(answer.headers) if header[0] != b"content-length"]
    await exchange.start(answer.status, headers)
    await exchange.finish(b"".join(pieces))


async def _both_ways(exchange: SocketPort, connection: Connection, socket: RelayedWebSocket, rest: bytes) -> None:
    down = asyncio.create_task(_to_client(exchange, connection, socket, rest))
    up = asyncio.create_task(_to_process(exchange, connection, socket))
    try:
        await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
        if not down.done():  # the client has closed: the process answers that
            await asyncio.wait({down}, timeout=_CLOSES_WITHIN_S)
        for task in (down, up):
            if task.done():
                task.result()
    finally:
        down.cancel()
        up.cancel()


async def _to_client(exchange: SocketPort, connection: Connection, socket: RelayedWebSocket, rest: bytes) -> None:
    octets = rest
    with contextlib.suppress(ClientGone):
        while True:
            found = socket.feed(octets) if octets else []
            if socket.to_send:
                connection.writer.write(socket.to_send)
                socket.to_send = b""
            for one in found:
                if isinstance(one, Closed):
                    await exchange.close(NORMAL if one.code == NO_CODE else one.code, one.reason)
                    return
                await exchange.send_message(one)
            octets = await read_some(connection)
            if not octets:
                await exchange.close(FAILED, "the process ended the connection")
                return


async def _to_process(exchange: SocketPort, connection: Connection, socket: RelayedWebSocket) -> None:
    try:
        while True:
            connection.writer.write(socket.message(await exchange.receive_message()))
            await connection.writer.drain()
    except SocketClosed as closed:
        with contextlib.suppress(OSError):
            connection.writer.write(socket.close(GOING_AWAY if closed.code == LOST else closed.code, closed.reason))
            await connection.writer.drain()
    except OSError:
        return  # `_to_client` sees the end as well

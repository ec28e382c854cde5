"""A websocket server: `python chat.py PORT`. Says back what it hears, until it hears otherwise."""

import asyncio
import contextlib
import http
import os
import sys

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


async def chat(socket):
    with contextlib.suppress(ConnectionClosed):
        await listen(socket)
    sys.stderr.write(f"closed {socket.close_code}\n")


async def listen(socket):
    async for message in socket:
        if message == "close":
            await socket.close(4001, "as you wish")
        elif message == "die":
            os._exit(1)
        elif message == "who":
            request = socket.request
            await socket.send(f"{request.path} {socket.subprotocol} {request.headers.get('x-forwarded-for')}")
        elif message == "many":
            for number in range(1000):
                await socket.send(f"{number}")
        else:
            await socket.send(message)


def answer(connection, request):
    if request.path == "/health":
        return connection.respond(http.HTTPStatus.OK, "well")
    if request.path.startswith("/secret"):
        return connection.respond(http.HTTPStatus.FORBIDDEN, "not you")
    return None


def chosen(connection, offered):
    return "talk" if "talk" in offered else None


async def main():
    port = int(sys.argv[1])
    async with serve(
        chat, "127.0.0.1", port, process_request=answer, select_subprotocol=chosen, max_size=1 << 24
    ) as server:
        await server.serve_forever()


asyncio.run(main())

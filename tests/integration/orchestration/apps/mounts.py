"""Mounts in plain ASGI: what goes wrong, what lasts, what is large."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import trilith


class Seen:
    """What happened to the applications of this process."""

    begun = 0
    disconnects = 0
    cancelled = 0
    sent = 0
    after = 0
    failed_sends = 0
    received = 0
    code = 0
    release = None


async def body_of(receive: Any) -> bytes:
    found = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionError(message["type"])
        found += message["body"]
        if not message["more_body"]:
            return found


async def answer(send: Any, data: bytes, status: int = 200, headers: Any = (), **more: Any) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": data, **more})


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """What it was asked, as JSON."""
    data = await body_of(receive)
    plain = {
        key: value.decode("latin-1") if isinstance(value, bytes) else value
        for key, value in scope.items()
        if key not in ("headers", "state")
    }
    plain["headers"] = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]]
    context = trilith.context()
    plain["context"] = [context.request_id, context.client, context.headers.get("x-odd")]
    plain["identity"] = None if context.identity is None else context.identity.name
    plain["body"] = len(data)
    await answer(send, json.dumps(plain).encode(), 200, [(b"content-type", b"application/json"), (b"Server", b"no")])


async def count(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body piece by piece: how many there were, and bytes."""
    pieces = size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            Seen.disconnects += 1
            return
        pieces += 1
        size += len(message["body"])
        Seen.received = size
        if not message["more_body"]:
            break
    await answer(send, b"%d %d" % (pieces, size))


async def slow(scope: Any, receive: Any, send: Any) -> None:
    """Endless pieces."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    try:
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            Seen.sent += 1
            await asyncio.sleep(0)
    except OSError:
        Seen.failed_sends += 1
        raise


async def listens(scope: Any, receive: Any, send: Any) -> None:
    """Answers when it is told that the client has gone."""
    await body_of(receive)
    Seen.begun += 1
    message = await receive()
    Seen.disconnects += message["type"] == "http.disconnect"


async def deaf(scope: Any, receive: Any, send: Any) -> None:
    """Does not listen, and never answers."""
    if scope["type"] == "lifespan":
        return
    Seen.begun += 1
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        Seen.cancelled += 1
        raise


async def events(scope: Any, receive: Any, send: Any) -> None:
    """One event, then another when somebody asks for it."""
    Seen.release = asyncio.Event()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
    await Seen.release.wait()
    await answer_rest(send, b"data: 2\n\n")


async def answer_rest(send: Any, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data})


async def ticks(scope: Any, receive: Any, send: Any) -> None:
    """Some pieces, with time between them."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for number in range(20):
        await send({"type": "http.response.body", "body": b"%d\n" % number, "more_body": True})
        await asyncio.sleep(0.05)
    await answer_rest(send, b"end")


async def head_first(scope: Any, receive: Any, send: Any) -> None:
    """Its head goes out before there is anything of the body."""
    Seen.release = asyncio.Event()
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await Seen.release.wait()
    await answer_rest(send, b"late")


async def release(scope: Any, receive: Any, send: Any) -> None:
    if Seen.release is not None:
        Seen.release.set()
    await answer(send, b"")


async def background(scope: Any, receive: Any, send: Any) -> None:
    """Goes on after its answer."""
    release = Seen.release = asyncio.Event()
    await answer(send, b"answered")
    await release.wait()
    Seen.after += 1


async def raises(scope: Any, receive: Any, send: Any) -> None:
    raise ValueError("secret of the app")


async def raises_midway(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise ValueError("broke midway")


async def silent(scope: Any, receive: Any, send: Any) -> None:
    return


async def breaks(scope: Any, receive: Any, send: Any) -> None:
    """Breaks the protocol as the query says."""
    match scope["query_string"]:
        case b"body-first":
            await send({"type": "http.response.body", "body": b""})
        case b"twice":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.start", "status": 200, "headers": []})
        case b"status":
            await send({"type": "http.response.start", "status": 101, "headers": []})
        case b"header":
            await answer(send, b"", 200, [(b"x", b"a\r\nset-cookie: b")])
        case b"long":
            await answer(send, b"12345", 200, [(b"content-length", b"4")])
        case b"short":
            await answer(send, b"12345", 200, [(b"content-length", b"6")])
        case b"unknown":
            await send({"type": "http.response.zerocopysend"})
        case b"after":
            await answer(send, b"whole")
            await send({"type": "http.response.body", "body": b"more"})


async def sized(scope: Any, receive: Any, send: Any) -> None:
    """A large answer of known length."""
    size = int(scope["query_string"] or b"0")
    await answer(send, b"y" * size, 200, [(b"content-length", b"%d" % size), (b"content-type", b"text/plain")])


async def status(scope: Any, receive: Any, send: Any) -> None:
    await answer(send, b"", int(scope["query_string"]), [(b"etag", b'"1"')])


async def seen(scope: Any, receive: Any, send: Any) -> None:
    names = ("begun", "disconnects", "cancelled", "sent", "after", "failed_sends", "received", "code")
    found = {name: getattr(Seen, name) for name in names}
    await answer(
        send, json.dumps({**found, "pid": os.getpid()}).encode(), 200, [(b"content-type", b"application/json")]
    )


async def socket(scope: Any, receive: Any, send: Any) -> None:
    """A websocket that does as its path and its messages say."""
    assert (await receive())["type"] == "websocket.connect"
    path = scope["path"].removeprefix(scope["root_path"])
    if path == "/ws/closes-first":
        await send({"type": "websocket.close"})
        return
    if path == "/ws/refuses":
        await send({"type": "websocket.http.response.start", "status": 402, "headers": [(b"x-why", b"paid")]})
        await send({"type": "websocket.http.response.body", "body": b"not yet"})
        return
    if path == "/ws/raises-first":
        raise ValueError("refused by accident")
    if path == "/ws/returns":
        return
    chosen = scope["subprotocols"][0] if scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": chosen, "headers": [(b"x-odd", b"1")]})
    if path == "/ws/scope":
        told = [scope["scheme"], scope["path"], scope["root_path"], scope["http_version"], trilith.context().request_id]
        await send({"type": "websocket.send", "text": json.dumps(told)})
        return
    if path == "/ws/floods":
        try:
            while True:
                await send({"type": "websocket.send", "bytes": b"x" * 65536})
                Seen.sent += 1
                await asyncio.sleep(0)
        except OSError:
            Seen.failed_sends += 1
            raise
    if path == "/ws/deaf":
        try:
            await asyncio.sleep(1000)
        finally:
            Seen.cancelled += 1
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            Seen.disconnects += 1
            Seen.code = message["code"]
            return
        if message.get("text") == "close":
            await send({"type": "websocket.close", "code": 4001, "reason": "as you say"})
            return
        if message.get("text") == "raise":
            raise ValueError("in the middle")
        await send({**message, "type": "websocket.send"})


PAGES = {
    "/echo": echo,
    "/count": count,
    "/slow": slow,
    "/listens": listens,
    "/deaf": deaf,
    "/events": events,
    "/head-first": head_first,
    "/release": release,
    "/ticks": ticks,
    "/background": background,
    "/raises": raises,
    "/raises-midway": raises_midway,
    "/silent": silent,
    "/breaks": breaks,
    "/sized": sized,
    "/status": status,
    "/seen": seen,
}


async def pages(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        raise RuntimeError("it knows nothing of that")
    path = scope["path"].removeprefix(scope["root_path"])
    if scope["type"] == "websocket":
        await socket(scope, receive, send)
        return
    await PAGES.get(path, echo)(scope, receive, send)


async def living(scope: Any, receive: Any, send: Any) -> None:
    """An application with a beginning and an end."""
    if scope["type"] != "lifespan":
        state = scope["state"]
        await answer(send, json.dumps([state["made"], trilith.current_service().name]).encode())
        return
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            scope["state"]["made"] = f"with {trilith.current_service().name}"
            await send({"type": "lifespan.startup.complete"})
        else:
            sys.stdout.write("the lifespan has ended\n")
            await send({"type": "lifespan.shutdown.complete"})
            return


@trilith.service
class Mounts:
    """Pages beside methods."""

    pages = trilith.mount("/app", pages)
    short = trilith.mount("/app/short", deaf, timeout_s=0.3)

    def __init__(self) -> None:
        self.name = "mounts"

    @trilith.mount("/living")
    def living(self) -> Any:
        return living

    @trilith.mount("/")
    def rest(self) -> Any:
        """Everything else."""

        async def rest(scope: Any, receive: Any, send: Any) -> None:
            await answer(send, f"rest {self.name} {scope['path']} {scope['root_path']!r}".encode())

        return rest

    @trilith.api
    async def add(self, a: int, b: int) -> int:
        return a + b

    @trilith.api(route="/app/method")
    async def method(self) -> str:
        return "method"

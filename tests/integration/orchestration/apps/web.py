"""Mounts of the frameworks that people use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request, UploadFile
from flask import Flask, Response, redirect, request, stream_with_context, url_for
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import RedirectResponse, StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

import trilith

flask_app = Flask("web")


@flask_app.get("/hello/<name>")
def hello(name: str) -> dict[str, Any]:
    return {"hello": name, "q": request.args.get("q"), "from": trilith.current_service().greeting}


@flask_app.post("/upload")
def upload() -> dict[str, Any]:
    return {"size": sum(map(len, iter(lambda: request.stream.read(65536), b"")))}


@flask_app.get("/go")
def go() -> Any:
    return redirect(url_for("hello", name="x"))


@flask_app.get("/counted")
def counted() -> Response:
    return Response(stream_with_context(f"data: {n}\n\n" for n in range(3)), mimetype="text/event-stream")


@flask_app.get("/raises")
def raises() -> Any:
    raise ValueError("flask's own")


async def go_there(request: Any) -> RedirectResponse:
    return RedirectResponse(request.url_for("there", name="y"))


async def there(request: Any) -> StreamingResponse:
    async def numbers() -> AsyncIterator[bytes]:
        try:
            for n in range(10**9):
                yield b"%d\n" % n
                await asyncio.sleep(0.001)
        finally:
            Seen.closed += 1

    return StreamingResponse(numbers(), media_type="text/plain")


async def chat(socket: Any) -> None:
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(f"{trilith.current_service().greeting}: {text}")


async def closed(request: Any) -> StreamingResponse:
    return StreamingResponse(iter([b"%d" % Seen.closed]))


class Seen:
    closed = 0
    tasks: ClassVar[list[str]] = []


@trilith.service
class Web:
    flask = trilith.mount("/flask", flask_app)
    by_name = trilith.mount("/named", "web:flask_app")

    def __init__(self) -> None:
        self.greeting = "web"

    @trilith.mount("/star")
    def star(self) -> Starlette:
        routes = [
            Route("/go", go_there),
            Route("/there/{name}", there, name="there"),
            Route("/closed", closed),
            WebSocketRoute("/chat", chat),
            Mount("/files", StaticFiles(directory=__file__.rpartition("/")[0])),
        ]
        return Starlette(routes=routes)

    @trilith.mount("/api")
    def api(self) -> FastAPI:
        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
            yield {"made": self.greeting}
            sys.stdout.write("fastapi has ended\n")

        app = FastAPI(lifespan=lifespan)

        @app.get("/items/{number}")
        def item(number: int, request: Request) -> dict[str, Any]:
            return {"number": number, "made": request.state.made, "id": trilith.context().request_id}

        @app.get("/who")
        async def who(service: Annotated[Any, Depends(trilith.current_service)]) -> str:
            return service.greeting

        @app.get("/who-in-thread")
        def who_in_thread(service: Annotated[Any, Depends(trilith.current_service)]) -> str:
            return service.greeting

        @app.post("/files")
        async def files(file: UploadFile) -> dict[str, Any]:
            return {"name": file.filename, "size": len(await file.read())}

        @app.get("/missing")
        def missing() -> None:
            raise HTTPException(404, "not here")

        @app.get("/fails")
        def fails() -> None:
            raise ValueError("fastapi's own")

        @app.get("/later")
        def later(tasks: BackgroundTasks) -> str:
            tasks.add_task(Seen.tasks.append, "done")
            return "soon"

        @app.get("/done")
        def done() -> list[str]:
            return Seen.tasks

        return app

    @trilith.api
    async def greet(self) -> str:
        return self.greeting


async def stamped(request: Any, call_next: Any) -> Any:
    if request.url.path == "/raises":
        raise ValueError("of the middleware")
    answer = await call_next(request)
    answer.headers["x-stamped"] = request.url.path
    return answer


async def visits(request: Any) -> Any:
    request.session["visits"] = request.session.get("visits", 0) + 1
    return StreamingResponse(iter([b"%d" % request.session["visits"]]))


@trilith.service(
    middleware=[
        Middleware(BaseHTTPMiddleware, dispatch=stamped),
        (SessionMiddleware, {"secret_key": "not a secret"}),
        GZipMiddleware,
    ]
)
class Wrapped:
    pages = trilith.mount("/pages", Starlette(routes=[Route("/visits", visits), WebSocketRoute("/chat", chat)]))
    flask = trilith.mount("/flask", flask_app)

    def __init__(self) -> None:
        self.greeting = "wrapped"

    @trilith.api
    async def words(self, n: int) -> list[str]:
        return ["word"] * n

    @trilith.api
    def size(self, body: bytes) -> int:
        return len(body)

    @trilith.api
    async def count(self, n: int) -> AsyncIterator[int]:
        for number in range(n):
            yield number

    @trilith.api
    async def raises(self) -> None:
        """The middleware does."""

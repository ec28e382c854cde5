"""Services whose replicas run another server."""

import os
import sys
import urllib.request
from pathlib import Path

import trilith

PROGRAMS = Path(__file__).parents[2] / "command" / "programs"
ECHO = [sys.executable, str(PROGRAMS / "echo.py"), "{port}"]


@trilith.service(
    cmd=trilith.Command(ECHO, ready="/health", environment={"ECHO_FOLDER": os.environ.get("ECHO_FOLDER", ".")}),
    health_interval_s=0.2,
    health_timeout_s=0.5,
)
class Echo:
    @trilith.api
    def target(self, path: str) -> str:
        """What the process says that it was asked for."""
        with urllib.request.urlopen(f"{self.cmd_url}/{path}") as answer:
            return answer.read().decode()


@trilith.service(cmd=trilith.Command(ECHO, path="/inner/echo"), replicas=2)
class Below:
    @trilith.api(route="/inner/echo/own")
    async def own(self) -> str:
        return "the method"


@trilith.service(cmd=trilith.Command(path="/kept", strip_path=False))
class Said:
    def __init__(self) -> None:
        self.words = "said"

    def __command__(self) -> list[str]:
        return [*ECHO, self.words]

    async def __aenter__(self) -> "Said":
        self.seen = self.cmd_url
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    @trilith.api
    async def url(self) -> str:
        return self.seen


@trilith.service(cmd=trilith.Command([sys.executable, "-c", "import time; time.sleep(3600)"], start_timeout_s=0.5))
class Hanging:
    pass


class Marked:
    """Middleware."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        async def marked(message):
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-marked", b"yes")]
            await send(message)

        await self.app(scope, receive, marked)


@trilith.service(
    cmd=trilith.Command([sys.executable, str(PROGRAMS / "chat.py"), "{port}"], ready="/health"), middleware=[Marked]
)
class Behind:
    pass


@trilith.service(cmd=trilith.Command([sys.executable, str(PROGRAMS / "chat.py"), "{port}"], ready="/health"))
class Chat:
    pass


@trilith.service(cmd=trilith.Command(["node", str(PROGRAMS / "server.mjs")], ready="/health"))
class Node:
    pass

"""Does what a page says, in a folder of its own, and compares what comes out.

Rule 1: ports 8000, 8001 and 8002 of a page become three free ones, the same in all its blocks.
Rule 2: a new `trilith serve` ends the page's server before it, as a reader would with Ctrl-C; it must exit with 0.
Rule 3: only processes that were started here are ended, by their id.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from page_blocks import Block, PageError, Use
from page_output import json_matches, text_matches
from page_server import PageServer

_PORTS = (8000, 8001, 8002)
_PORT = re.compile(r"(?<![\w.])800[012](?![\w.]\d|\d)")
_COMMAND_WITHIN_S = 120
_READY_WITHIN_S = 120


class PageRunner:
    """Runs the blocks of one page."""

    def __init__(self, name: str, folder: Path, runtime_folder: Path, worker: int) -> None:
        """`runtime_folder` is short, as a UNIX socket's path may have 107 bytes; `worker` numbers test processes."""
        self._name = name
        self._folder = folder
        self._ports = dict(zip(_PORTS, _free_ports(worker), strict=True))
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": str(runtime_folder),
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        self._server: PageServer | None = None
        self._printed = ""

    def run(self, blocks: list[Block]) -> None:
        """Runs them in order.

        Raises:
            PageError: something is not as the page says.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self._kill_server)
            for block in blocks:
                self._run_block(block, self._mapped(block.text))
            self._end_server()

    def _run_block(self, block: Block, text: str) -> None:
        where = f"{self._name}:{block.line}"
        if block.use is Use.FILE:
            self._write(block.detail, text, where)
        elif block.use is Use.PYTHON:
            # Empty lines before it, so that a traceback has the page's line numbers.
            self._write(f"block_{block.line}.py", "\n" * (block.line - 1) + text, where)
            self._printed = self._command([sys.executable, f"block_{block.line}.py"], where)
        elif block.use is Use.SHELL:
            self._printed = "".join(self._shell(text, where))
        elif block.use is Use.EXPECTED_JSON and not json_matches(text, self._printed):
            raise PageError(f"{where}: the page says\n{text}\nand this was printed:\n{self._printed}")
        elif block.use is Use.EXPECTED_TEXT and not text_matches(text, self._printed):
            raise PageError(f"{where}: the page says\n{text}\nand this was printed:\n{self._printed}{self._log()}")

    def _mapped(self, text: str) -> str:
        return _PORT.sub(lambda found: str(self._ports[int(found[0])]), text)

    def _write(self, title: str, text: str, where: str) -> None:
        path = (self._folder / title).resolve()
        if not path.is_relative_to(self._folder.resolve()):
            raise PageError(f"{where}: a file of a page lies in its folder, got {title}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _shell(self, text: str, where: str) -> Iterator[str]:
        """Lines up to a `trilith serve` are one script, so that what a line sets is there in the next one."""
        script: list[str] = []
        for line in text.replace("\\\n", " ").splitlines():
            if re.match(r"\s*trilith serve\b", line):
                yield self._script(script, where)
                script = []
                yield self._serve(line, where)
            else:
                script.append(line)
        yield self._script(script, where)

    def _script(self, lines: list[str], where: str) -> str:
        if not any(line.strip() for line in lines):
            return ""
        return self._command(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], where)

    def _command(self, command: list[str], where: str) -> str:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env={**self._environment, "PYTHONWARNINGS": "error"},
            capture_output=True,
            text=True,
            timeout=_COMMAND_WITHIN_S,
            check=False,
        )
        if done.returncode != 0:
            raise PageError(
                f"{where}: exit status {done.returncode}\n{command[-1]}\n{done.stdout}\n{done.stderr}{self._log()}"
            )
        return done.stdout

    # The server

    def _serve(self, line: str, where: str) -> str:
        self._end_server()
        arguments = shlex.split(line, comments=True)[1:]
        for option, port in zip(("--http-port", "--grpc-port", "--metrics-port"), self._ports.values(), strict=True):
            arguments += [option, str(port)]
        self._server = PageServer(arguments, self._folder, self._environment)
        if not self._server.wait_ready(_READY_WITHIN_S):
            raise PageError(f"{where}: the server did not become ready: {line}{self._log()}")
        return self._server.printed

    def _log(self) -> str:
        return f"\nThe server said:\n{self._server.printed}" if self._server is not None else ""

    def _end_server(self) -> None:
        server = self._server
        if server is None:
            return
        status = server.interrupt()
        if status != 0:
            raise PageError(f"{self._name}: the server ended with exit status {status}{self._log()}")
        self._server = None

    def _kill_server(self) -> None:
        if self._server is not None:
            self._server.kill()


def _free_ports(worker: int) -> list[int]:
    """Three ports that nobody listens on, below those that the system hands out, from a range of this test process."""
    first = 20_000 + 1_000 * (worker % 10)
    found: list[int] = []
    for port in random.Random().sample(range(first, first + 1_000), 1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == 3:
            break
    return found

"""`--inline`: breakpoints in a handler, at a terminal."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from live_server import environment

from trilith.cli import main

APP = """
import time

import trilith


@trilith.service(replicas=3, cpu=1)
class Inner:
    @trilith.api(batch=trilith.Batch(max_size=2))
    async def double(self, values: list[int]) -> list[int]:
        return [2 * value for value in values]


@trilith.service(replicas=2)
class Outer:
    inner = trilith.depends(Inner)

    def __init__(self):
        self.started = True

    @trilith.api(timeout_s=0.2)
    async def stand(self, number: int) -> int:
        secret = await self.inner.double(number)
        breakpoint()
        return secret + 1

    @trilith.api(timeout_s=0.2)
    def stand_in_thread(self, number: int) -> int:
        secret = number * 3
        breakpoint()
        return secret

    @trilith.api
    def fail(self) -> int:
        return helper()

    @trilith.api
    def hang_in_thread(self) -> int:
        print("it hangs")
        time.sleep(3600)

    @trilith.api
    async def hang(self) -> int:
        print("it hangs")
        time.sleep(3600)


def helper() -> int:
    raise ValueError("a bad day")
"""


class Terminal:
    """A server with a terminal, and what a person reads and types there."""

    def __init__(self, folder, runtime_folder, *options):
        """`runtime_folder` is short, as a UNIX socket's path may have 107 bytes."""
        self.master, slave = pty.openpty()
        command = [sys.executable, "-P", "-m", "trilith", "serve", "inlined.py:Outer", "--inline", *options]
        ports = [word for name in ("--http-port", "--grpc-port", "--metrics-port") for word in (name, "0")]
        self.process = subprocess.Popen(
            [*command, *ports],
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment(runtime_folder), "TERM": "dumb", "PYTHONBREAKPOINT": ""},
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""
        self.read_to = 0

    def expect(self, wanted, within_s=40.0):
        """What came up to `wanted`, since the last time."""
        until = time.monotonic() + within_s
        while wanted not in self.text[self.read_to :]:
            if not select.select([self.master], [], [], max(0.0, until - time.monotonic()))[0]:
                raise AssertionError(f"no {wanted!r} in:\n{self.text}")
            try:
                self.text += os.read(self.master, 65536).decode(errors="replace").replace("\r\n", "\n")
            except OSError:
                raise AssertionError(f"it ended without {wanted!r}:\n{self.text}") from None
        at = self.text.index(wanted, self.read_to) + len(wanted)
        found, self.read_to = self.text[self.read_to : at], at
        return found

    def type(self, line):
        os.write(self.master, f"{line}\n".encode())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(tmp_path, tmp_path_factory):
    Path(tmp_path, "inlined.py").write_text(APP)
    started = []

    def start(*options):
        started.append(Terminal(tmp_path, tmp_path_factory.mktemp("run"), *options))
        return started[-1]

    yield start
    for each in started:
        each.close()


class Request(threading.Thread):
    """A call that is answered some time."""

    def __init__(self, url, body=b"{}"):
        super().__init__(daemon=True)
        self.request = urllib.request.Request(url, body, {"content-type": "application/json"})
        self.start()

    def run(self):
        try:
            with urllib.request.urlopen(self.request, timeout=50) as response:
                self.answer = response.status, response.read()
        except urllib.error.HTTPError as error:
            with contextlib.closing(error):
                self.answer = error.code, error.read()
        except OSError:
            self.answer = 0, b"cut"

    def wait(self):
        self.join(50)
        return self.answer


def address(terminal):
    terminal.expect("http://")
    return "http://" + terminal.expect(" ").strip()


@pytest.mark.timeout(120)
def test_a_breakpoint_gives_a_debugger(terminal):
    server = terminal()
    url = address(server)
    for method, secret, answer in (("stand", 42, b"43"), ("stand_in_thread", 63, b"63")):
        calling = Request(f"{url}/{method}", b'{"number": 21}')
        server.expect("(Pdb) ")
        time.sleep(0.5)  # longer than the method's limit, which is no wait for anything
        server.type("p secret")
        assert str(secret) in server.expect("(Pdb) ")
        server.type("where")
        assert "inlined.py" in server.expect("(Pdb) ")
        server.type("continue")
        assert calling.wait() == (200, answer)
    server.process.send_signal(signal.SIGINT)
    server.expect("stopped")
    assert server.process.wait(30) == 0


def test_the_log_shows_the_own_frames_first_and_clients_the_text(terminal):
    server = terminal()
    url = address(server)
    status, body = Request(f"{url}/fail").wait()
    assert status == 500
    assert b"ValueError: a bad day" in body
    server.expect("ERROR trilith.service: Outer.fail raised")
    log = server.expect("\n  ValueError: a bad day\n")
    frames = [line.strip() for line in log.splitlines() if line.strip().startswith("File ")]
    assert ["in fail" in frames[0], "in helper" in frames[1], len(frames)] == [True, True, 2]
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0


def test_a_start_that_fails_says_why(terminal, tmp_path):
    Path(tmp_path, "inlined.py").write_text(APP.replace("self.started = True", "raise ValueError('no luck')"))
    server = terminal()
    server.expect("no luck")
    assert server.process.wait(40) == 1


@pytest.mark.parametrize("options", [["--reload"], ["--replicas", "2"]])
def test_what_does_not_go_with_it(options, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["serve", "app.py:Outer", "--inline", *options])
    assert ended.value.code == 2
    assert "--inline" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["hang", "hang_in_thread"])
def test_what_hangs_does_not_keep_the_process(terminal, method):
    server = terminal("--drain-timeout-s", "0.5")
    hanging = Request(f"{address(server)}/{method}")
    server.expect("it hangs")
    server.process.send_signal(signal.SIGTERM)
    server.expect("stopped")
    assert server.process.wait(20) == 0
    status, body = hanging.wait()
    assert (status, b'"draining"' in body) == (503, True)


@pytest.mark.parametrize("method", ["hang", "hang_in_thread"])
def test_the_second_signal_ends_it_whatever_hangs(terminal, method):
    server = terminal("--drain-timeout-s", "3600")
    Request(f"{address(server)}/{method}")
    server.expect("it hangs")
    server.process.send_signal(signal.SIGTERM)
    server.expect("Ctrl-C again")
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(20) == 1


def test_a_breakpoint_does_not_keep_it_either(terminal):
    server = terminal("--drain-timeout-s", "3600")
    Request(f"{address(server)}/stand", b'{"number": 21}')
    server.expect("(Pdb) ")
    server.process.send_signal(signal.SIGINT)
    server.expect("Ctrl-C again")
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(20) == 1

"""`trilith serve` as a real process, on ports that the system chooses."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

APPS = Path(__file__).parent / "apps"


class Server:
    """A served target. Everything it prints is kept in `lines`."""

    def __init__(self, arguments, environment, *, cwd=None):
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "trilith", "serve", *arguments],  # -P: as the script `trilith` starts
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.lines = []
        self._grown = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._grown:
                self.lines.append(line.rstrip("\n"))
                self._grown.notify_all()
        with self._grown:
            self._grown.notify_all()

    @property
    def output(self):
        return "\n".join(self.lines)

    def wait_line(self, text, *, within_s=30.0, after=0):
        """The first line that contains `text`; waits for it."""
        deadline = time.monotonic() + within_s
        with self._grown:
            while True:
                for line in self.lines[after:]:
                    if text in line:
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    raise AssertionError(f"no line with {text!r}; the server said:\n{self.output}")
                self._grown.wait(min(left, 0.5))

    def wait_ready(self, *, scheme="http"):
        line = self.wait_line("ready: ")
        self.http = int(line.split(f"{scheme}://", 1)[1].split()[0].rsplit(":", 1)[1])
        self.grpc = int(line.split("gRPC ", 1)[1].split()[0].rsplit(":", 1)[1])
        self.metrics = int(line.split("metrics http://", 1)[1].split("/", 1)[0].rsplit(":", 1)[1])
        return self

    def connection(self, *, timeout=20.0):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.http, timeout=timeout))

    def post(self, path, value=None, *, body=None, headers=None, timeout=20.0):
        """Status and decoded JSON."""
        with self.connection(timeout=timeout) as connection:
            raw = json.dumps(value if value is not None else {}).encode() if body is None else body
            connection.request("POST", path, raw, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            answer = response.read()
            is_json = (response.headers.get("content-type") or "").startswith("application/json")
            return response.status, json.loads(answer) if is_json else answer

    def get(self, path, *, port=None):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port or self.http, timeout=20)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()

    def status(self):
        return json.loads(self.get("/status", port=self.metrics)[1])

    def replica_pids(self, service):
        [found] = [entry for entry in self.status()["services"] if entry["name"] == service]
        return [row["pid"] for row in found["replicas"] if row["state"] == "running"]

    def gateway_pid(self):
        children = psutil.Process(self.process.pid).children()
        [found] = [child.pid for child in children if "engine.gateway" in " ".join(child.cmdline())]
        return found

    def wait_until(self, condition, *, within_s=20.0):
        """Polls a condition on the running server."""
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"the condition did not come true; the server said:\n{self.output}")
            select.select([], [], [], 0.02)

    def terminate(self, *, within_s=20.0):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join(5)
        self.process.stdout.close()


def environment(folder):
    return {**os.environ, "XDG_RUNTIME_DIR": str(folder), "PYTHONWARNINGS": "default"}

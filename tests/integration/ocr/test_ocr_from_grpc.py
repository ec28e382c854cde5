"""The hand-written server carried over: its old client, with the stubs that it always had, against the services."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from accuracy import character_error_rate
from client import read
from pages import STYLES, invoice

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SERVICE = EXAMPLES / "ocr_baseline" / "service.py"
PORTS = ("--http-port", "0", "--grpc-port", "0", "--metrics-port", "0")


@contextlib.contextmanager
def served(name: str, *options: str) -> Iterator[str]:
    """The gRPC address of a service of the example."""
    command = [sys.executable, "-m", "trilith", "serve", f"{SERVICE}:{name}", *PORTS, *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    ) as server:
        try:
            said = []
            for line in server.stdout:
                said.append(line)
                if "ready: " in line:
                    break
            assert "gRPC " in said[-1], "".join(said)
            yield said[-1].split("gRPC ", 1)[1].split()[0]
        finally:
            server.send_signal(signal.SIGTERM)
            server.stdout.read()
            assert server.wait(20) == 0


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "arguments", [("Carried",), ("Staged", "--models", str(EXAMPLES / "ocr" / "models"))], ids=["carried", "staged"]
)
def test_the_old_client_reads_the_page(arguments: tuple[str, ...]):
    page = invoice(replace(STYLES["clean"], rows=5))
    with served(*arguments) as address:
        lines = read(address, page.png()).lines
        assert character_error_rate([line.text for line in lines], page.lines) <= 0.01
        assert all(len(line.box) == 8 for line in lines)
        assert [line.row for line in lines] == sorted(line.row for line in lines)
        with pytest.raises(grpc.RpcError) as refused:
            read(address, b"no image")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

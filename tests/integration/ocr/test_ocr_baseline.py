from __future__ import annotations

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

SERVER = Path(__file__).resolve().parents[3] / "examples" / "ocr_baseline" / "server.py"


@pytest.fixture(params=[[], ["--tuned"]], ids=["first", "tuned"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    command = [sys.executable, str(SERVER), "--port", "0", *request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        try:
            line = server.stdout.readline()
            assert line.startswith("serving on "), line
            yield line.split()[-1]
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(15) == 0


def test_the_hand_written_server_reads_the_page(address: str):
    page = invoice(replace(STYLES["clean"], rows=5))
    lines = read(address, page.png()).lines
    assert character_error_rate([line.text for line in lines], page.lines) <= 0.01
    assert all(len(line.box) == 8 for line in lines)
    with pytest.raises(grpc.RpcError) as refused:
        read(address, b"no image")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

"""Ports that are taken: all of them are told at once, and whose they are."""

import contextlib
import os
import socket

import pytest

from trilith.errors import PortInUse
from trilith.orchestration.engine import ports
from trilith.orchestration.engine.places import ServerRecord


def test_all_that_are_taken_are_named_with_the_server_that_has_them(monkeypatch):
    with contextlib.ExitStack() as undo:
        taken = [undo.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
        record = ServerRecord(
            pid=os.getpid(), target="models", started_at=0.0, http=f"127.0.0.1:{taken[0]}", grpc="", metrics=""
        )
        monkeypatch.setattr(ports, "read_records", lambda: [record])
        bound = ports.Ports("127.0.0.1")
        assert bound.listen(undo, taken[0], "--http-port") == []
        assert len(bound.listen(undo, 0, "--grpc-port")) == 1
        assert bound.listen(undo, taken[1], "--metrics-port") == []
        with pytest.raises(PortInUse) as raised:
            bound.check()
        assert f"It is the server of models (pid {os.getpid()})" in raised.value.message
        assert f"So is --metrics-port ({taken[1]}): give another for each" in raised.value.message
        assert "another port with --http-port (0: any free one)" in raised.value.message


def test_ports_that_are_free_or_off_are_no_matter():
    with contextlib.ExitStack() as undo:
        bound = ports.Ports("127.0.0.1")
        assert bound.listen(undo, None, "--grpc-port") == []
        assert len(bound.listen(undo, 0, "--http-port")) == 1
        bound.check()

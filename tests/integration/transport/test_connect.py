"""Listening and connecting: paths, stale files, refusals, inherited sockets."""

from __future__ import annotations

import asyncio
import errno
import socket
import stat
import sys

import pytest

from trilith.errors import InvalidConfig, PortInUse, SetupError
from trilith.net.transport import Listener, Peer, connect

connecting = sys.modules["trilith.net.transport.connect"]  # the package's name for it is the function


def test_two_workers_connect_and_the_file_is_private_and_removed(run, tmp_path):
    path = tmp_path / "gateway.sock"

    async def main():
        peers: list[Peer] = []
        listener = Listener(peers.append, grant=5)
        listener.start(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        workers = [await connect(path, grant=grant, prepare=lambda peer: None) for grant in (3, 4)]
        for peer in peers:
            await peer.wait_greeted()
        assert sorted(peer.credits for peer in peers) == [3, 4]
        assert [worker.credits for worker in workers] == [5, 5]
        listener.close()
        listener.close()
        assert not path.exists()
        answered = asyncio.get_running_loop().create_future()
        workers[0].call(b"", [], answered.set_result)
        assert (await answered).error_code == "no_ready_replica"
        for peer in (*workers, *peers):
            peer.abort()

    run(main())


def test_a_socket_that_listens_already_is_used(run, tmp_path):
    path = tmp_path / "inherited.sock"

    async def main():
        peers: list[Peer] = []
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.bind(str(path))
        sock.listen()
        listener = Listener(peers.append, grant=1)
        listener.start(sock)
        worker = await connect(str(path), grant=0)
        listener.close()
        assert path.exists()
        worker.abort()
        peers[0].abort()

    run(main())


def test_the_file_of_a_dead_process_is_replaced_and_that_of_a_living_one_is_not(run, tmp_path):
    path = tmp_path / "gateway.sock"

    async def main():
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        dead.bind(str(path))
        dead.close()
        listener = Listener(lambda peer: None, grant=1)
        listener.start(path)
        with pytest.raises(PortInUse, match=r"gateway\.sock"):
            Listener(lambda peer: None, grant=1).start(path)
        listener.close()
        path.write_text("not a socket")
        with pytest.raises(PortInUse):
            Listener(lambda peer: None, grant=1).start(path)
        assert path.read_text() == "not a socket"

    run(main())


def test_nobody_there(run, tmp_path):
    async def main():
        with pytest.raises(SetupError, match="to listen at"):
            await connect(tmp_path / "missing.sock", grant=1)
        for path in ("x" * 200, ""):
            with pytest.raises(InvalidConfig, match="socket path"):
                await connect(path, grant=1)

    run(main())


def test_somebody_else_there(run, tmp_path):
    async def main():
        path = tmp_path / "other.sock"

        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail server ready, tell me what you want from me today\r\n")
            await reader.read()
            writer.close()
            await writer.wait_closed()
            left.set()

        left = asyncio.Event()
        server = await asyncio.start_unix_server(speak, path)
        with pytest.raises(SetupError, match="malformed frame"):
            await connect(path, grant=1)
        await left.wait()
        server.close()
        await server.wait_closed()

    run(main())


def test_somebody_silent_there(run, tmp_path):
    async def main():
        path = tmp_path / "silent.sock"
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        silent.bind(str(path))
        silent.listen()
        with pytest.raises(SetupError, match="did not answer in"):
            await connect(path, grant=1, timeout_s=0.05)
        silent.close()

    run(main())


def test_an_impossible_grant_is_refused_and_closes_the_socket(run, tmp_path):
    async def main():
        listener = Listener(lambda peer: None, grant=1)
        listener.start(tmp_path / "gateway.sock")
        with pytest.raises(InvalidConfig, match="grant"):
            await connect(tmp_path / "gateway.sock", grant=-1)
        with pytest.raises(InvalidConfig, match="grant"):
            Listener(lambda peer: None, grant=5000)
        listener.close()

    run(main())


def test_without_descriptors_connecting_fails_and_accepting_is_logged_once(run, tmp_path, monkeypatch, caplog):
    path = tmp_path / "gateway.sock"

    def none_left(*_args, **_named):
        raise OSError(errno.EMFILE, "Too many open files")

    async def main():
        peers: list[Peer] = []
        listener = Listener(peers.append, grant=1)
        listener.start(path)
        monkeypatch.setattr(connecting, "_ACCEPT_AGAIN_S", 0.01)
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "accept", none_left)
            with pytest.raises(SetupError, match="did not answer"):
                await connect(path, grant=0, timeout_s=0.2)
            patch.setattr(connecting, "Peer", none_left)
            with pytest.raises(SetupError, match="ulimit -n"):
                await connect(path, grant=0)
        assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
            "cannot accept worker connections; trying again every 0.01 s"
        ]
        worker = await connect(path, grant=0)
        worker.abort()
        listener.close()
        for peer in peers:
            peer.abort()

    run(main())

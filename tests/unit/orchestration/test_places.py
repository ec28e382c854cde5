"""What servers leave word of themselves is believed, and kept, only while they live."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from trilith.errors import SetupError
from trilith.orchestration.engine.places import (
    ServerRecord,
    peers_folder,
    read_records,
    server_record,
    uploads_folder,
)

HOLDS = """
import os, signal, sys
from trilith.orchestration.engine import places
with places.peers_folder() as peers, places.uploads_folder() as uploads:
    (uploads / "page").touch()
    record = places.ServerRecord(pid=7, target="a.py:S", started_at=2.0, http="h:1", grpc="", metrics="")
    with places.server_record(record):
        print(peers, uploads, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    short = tempfile.mkdtemp(prefix="t")  # the path of a socket is short
    monkeypatch.setenv("XDG_RUNTIME_DIR", short)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    yield Path(short) / "trilith"
    shutil.rmtree(short)


def record(started_at=1.0):
    return ServerRecord(pid=os.getpid(), target="a.py:S", started_at=started_at, http="h:1", grpc="", metrics="")


@pytest.fixture
def other(tmp_path):
    """Another server, with what it has made."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )
    process.folders = process.stdout.readline().split()
    yield process
    process.kill()
    process.communicate()


def test_what_a_server_that_lives_has_is_left_alone(other):
    """Whatever its number is: two containers may have the same."""
    with peers_folder() as peers, uploads_folder() as uploads, server_record(record()):
        assert [each.pid for each in read_records()] == [os.getpid(), 7]
        assert {str(peers), str(uploads)}.isdisjoint(other.folders)
    assert all(map(os.path.isdir, other.folders))
    assert not peers.exists()
    assert not uploads.exists()
    assert [each.pid for each in read_records()] == [7]


def test_what_is_left_of_one_that_was_killed_is_removed(other, folder):
    other.kill()
    other.wait()
    assert all(map(os.path.isdir, other.folders))
    (folder / "server-7.json").write_bytes(msgspec.json.encode({"pid": "?"}))
    with peers_folder(), uploads_folder(), server_record(record()):
        assert not any(map(os.path.exists, other.folders))
        assert read_records() == [record()]
        assert len(list(folder.glob("server-*.json"))) == 1


def test_a_record_that_is_being_written_is_not_there_yet_and_stays(folder):
    with server_record(record()):
        [path] = folder.glob("server-*.json")
        path.write_bytes(b"{")
        assert read_records() == []
        assert path.exists()


def test_a_folder_that_cannot_be_made_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(SetupError, match="set TMPDIR to another folder"), uploads_folder():
        pass
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    with pytest.raises(SetupError, match="too long a path for a socket"), peers_folder():
        pass


def test_a_server_says_later_what_its_target_is():
    with server_record(record()) as say:
        say("app.py:Desk")
        assert [each.target for each in read_records()] == ["app.py:Desk"]

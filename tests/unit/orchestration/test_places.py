"""What servers leave word of themselves is believed only while they run."""

import os

import msgspec
import pytest

from trilith.orchestration.engine.places import ServerRecord, born, read_records, write_record


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "trilith"


def record(pid, birth):
    return ServerRecord(pid=pid, born=birth, target="a.py:S", started_at=1.0, http="h:1", grpc="", metrics="")


def test_a_server_that_runs_is_known(folder):
    ours = record(os.getpid(), born(os.getpid()))
    path = write_record(ours)
    assert read_records() == [ours]
    assert path.exists()


def test_what_is_left_of_a_server_whose_number_another_process_has_is_removed(folder):
    path = write_record(record(os.getpid(), "1"))
    assert read_records() == []
    assert not path.exists()


def test_the_next_server_removes_what_others_left(folder):
    gone = write_record(record(2**22 + 1, "1"))  # more than a process number can be
    (folder / "server-7.json").write_bytes(msgspec.json.encode({"pid": "?"}))
    ours = write_record(record(os.getpid(), born(os.getpid())))
    assert not gone.exists()
    assert [path.name for path in folder.glob("server-*.json")] == [ours.name]

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import pytest

from trilith.errors import InvalidConfig, SetupError, UnknownReference
from trilith.runtime.sources import FetchEvent, Phase, cache_root, resolve

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SHA256_B = hashlib.sha256(b"b" + CONTENT).hexdigest()
SOURCE = "pypi:tiny-models==1.0#tiny/models/a.onnx"
SOURCE_B = "pypi:tiny-models==1.0#tiny/models/b.onnx"


def test_a_wheels_file_is_fetched_once_and_then_found(index, tmp_path: Path):
    events: list[FetchEvent] = []
    first = resolve(SOURCE, sha256=SHA256.upper(), cache=tmp_path, progress=events.append)
    assert first.read_bytes() == CONTENT
    assert first.name == "a.onnx"
    assert first.stat().st_mode & 0o222 == 0, "nobody may write it"
    assert [event.phase for event in events] == [Phase.FETCHING, Phase.FETCHING, Phase.VERIFYING, Phase.READY]
    assert (events[1].done_bytes, events[1].total_bytes) == (10, 20)
    events.clear()
    assert resolve(SOURCE, sha256=SHA256, cache=tmp_path, progress=events.append) == first
    assert events == []
    assert index.downloads == 1


def test_two_files_of_one_wheel_fetch_it_once(index, tmp_path: Path):
    resolve(SOURCE, sha256=SHA256, cache=tmp_path)
    assert resolve(SOURCE_B, sha256=SHA256_B, cache=tmp_path).read_bytes() == b"b" + CONTENT
    assert index.downloads == 1


def test_a_pypi_source_without_a_hash_fetches_nothing(index, tmp_path: Path):
    with pytest.raises(InvalidConfig, match=r"sha256 of the file 'a\.onnx'"):
        resolve(SOURCE, cache=tmp_path)
    assert index.downloads == 0


def test_a_wrong_hash_names_both_and_keeps_nothing(index, tmp_path: Path):
    for _ in range(2):
        with pytest.raises(SetupError, match=rf"(?s)expected sha256 {'0' * 64}.*found    sha256 {SHA256}"):
            resolve(SOURCE, sha256="0" * 64, cache=tmp_path)
    assert not list(tmp_path.rglob("*.onnx"))
    assert not list(tmp_path.rglob("*.part"))
    assert index.downloads == 2, "a wheel that did not hold the pinned content is not kept"


def test_a_missing_file_lists_what_the_wheel_has(index, tmp_path: Path):
    with pytest.raises(UnknownReference, match=r"(?s)no file 'tiny/c\.onnx'.*models/a\.onnx\n.*models/b\.onnx"):
        resolve("pypi:tiny-models==1.0#tiny/c.onnx", sha256=SHA256, cache=tmp_path)


@pytest.mark.parametrize("damage", [b"weights", b"w" + CONTENT[1:-1] + b"!", b""])
def test_a_damaged_cached_file_is_fetched_again(index, tmp_path: Path, damage: bytes):
    path = resolve(SOURCE, sha256=SHA256, cache=tmp_path)
    path.chmod(0o644)
    path.write_bytes(damage)
    os.utime(path, ns=(1, 1))
    assert resolve(SOURCE, sha256=SHA256, cache=tmp_path) == path
    assert path.read_bytes() == CONTENT
    assert index.downloads == 1, "the kept wheel still has it"


def test_a_touched_file_is_hashed_and_kept(index, tmp_path: Path):
    path = resolve(SOURCE, sha256=SHA256, cache=tmp_path)
    os.utime(path, ns=(1, 1))
    record = path.with_name("a.onnx.json")
    before = record.read_bytes()
    assert resolve(SOURCE, sha256=SHA256, cache=tmp_path) == path
    assert record.read_bytes() != before
    record.write_bytes(b"not a record")
    assert resolve(SOURCE, sha256=SHA256, cache=tmp_path) == path
    assert index.downloads == 1


def test_a_damaged_kept_wheel_is_fetched_again(index, tmp_path: Path):
    resolve(SOURCE, sha256=SHA256, cache=tmp_path)
    (wheel,) = tmp_path.rglob("*.whl")
    wheel.write_bytes(b"PK truncated")
    assert resolve(SOURCE_B, sha256=SHA256_B, cache=tmp_path).is_file()
    assert index.downloads == 2


def test_a_damaged_download_is_reported_and_not_kept(index, tmp_path: Path):
    index.damage = True
    with pytest.raises(SetupError, match="is damaged"):
        resolve(SOURCE, sha256=SHA256, cache=tmp_path)
    assert not list(tmp_path.rglob("*.whl"))


def test_threads_that_want_the_same_package_fetch_it_once(index, tmp_path: Path):
    barrier, results = threading.Barrier(8), []

    def fetch(source: str, sha256: str) -> None:
        barrier.wait()
        results.append(resolve(source, sha256=sha256, cache=tmp_path))

    wanted = [(SOURCE, SHA256), (SOURCE_B, SHA256_B)] * 4
    threads = [threading.Thread(target=fetch, args=one) for one in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert index.downloads == 1


def test_an_old_wheel_is_removed_by_a_later_fetch(index, tmp_path: Path):
    old = tmp_path / "wheels" / "other-1"
    old.mkdir(parents=True)
    (old / "other.whl").write_bytes(b"")
    os.utime(old, (1, 1))
    resolve(SOURCE, sha256=SHA256, cache=tmp_path)
    assert not old.exists()


def test_a_cache_that_cannot_be_written_is_a_setup_error(index, tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(SetupError, match="TRILITH_CACHE"):
        resolve(SOURCE, sha256=SHA256, cache=blocked / "cache")


def test_local_files(tmp_path: Path):
    path = tmp_path / "m.onnx"
    path.write_bytes(CONTENT)
    assert resolve("m.onnx", base=tmp_path) == path
    assert resolve("file:m.onnx", base=tmp_path, sha256=SHA256) == path
    assert resolve(f"file://{path}") == path
    with pytest.raises(SetupError, match="not the one that was pinned"):
        resolve(str(path), sha256="0" * 64)
    with pytest.raises(UnknownReference, match="there is no file"):
        resolve("n.onnx", base=tmp_path)
    with pytest.raises(InvalidConfig, match="is a folder"):
        resolve(str(tmp_path), sha256=SHA256)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_root({"TRILITH_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c/models")
    assert cache_root({"XDG_CACHE_HOME": "/x"}) == Path("/x/trilith/models")
    assert cache_root({}) == Path("/home/someone/.cache/trilith/models")
    monkeypatch.setenv("TRILITH_CACHE", "/elsewhere")
    assert cache_root() == Path("/elsewhere/models"), "the environment is read when called"

"""Folders told by their files."""

import os

from trilith.runtime import fingerprint
from trilith.runtime.fingerprint import Fingerprints, stamp_of


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_content_counts_and_nothing_else(tmp_path):
    seen = Fingerprints()
    path = write(tmp_path / "m" / "1" / "model.onnx", "weights")
    first = seen.of([tmp_path / "m"])
    os.utime(path, ns=(1, 1))
    write(tmp_path / "m" / ".hidden", "x")
    write(tmp_path / "m" / "__pycache__" / "x.pyc", "x")
    (tmp_path / "m" / "2").mkdir()
    assert seen.of([tmp_path / "m"]) == first
    write(path, "weighty")  # of the same size
    second = seen.of([tmp_path / "m"])
    assert second != first
    path.rename(tmp_path / "m" / "1" / "other.onnx")
    assert seen.of([tmp_path / "m"]) not in (first, second)
    write(path, "weights")
    (tmp_path / "m" / "1" / "other.onnx").unlink()
    assert seen.of([tmp_path / "m"]) == first == Fingerprints().of([tmp_path / "m"])


def test_a_file_is_read_again_only_when_its_stamp_has_changed(tmp_path, monkeypatch):

    read = []
    real = fingerprint._digest_of
    monkeypatch.setattr(fingerprint, "_digest_of", lambda path, size: (read.append(path), real(path, size))[1])
    write(tmp_path / "m" / "a", "1")
    write(tmp_path / "m" / "b", "1")
    seen = Fingerprints()
    seen.of([tmp_path / "m"])
    seen.of([tmp_path / "m"])
    assert len(read) == 2
    write(tmp_path / "m" / "b", "22")
    seen.of([tmp_path / "m"])
    assert read[2:] == [str(tmp_path / "m" / "b")]


def test_links_that_lead_up_end_somewhere(tmp_path):
    write(tmp_path / "m" / "1" / "model.onnx", "x")
    (tmp_path / "m" / "1" / "up").symlink_to(tmp_path / "m")
    (tmp_path / "m" / "dangling").symlink_to(tmp_path / "nowhere")
    assert len(Fingerprints().of([tmp_path / "m"])) == 64
    assert len(stamp_of(tmp_path / "m")) < 40


def test_stamps(tmp_path):
    path = write(tmp_path / "m" / "1" / "model.onnx", "x")
    write(tmp_path / "m" / "labels.txt", "cat")
    assert [name for name, *_ in stamp_of(tmp_path / "m")] == ["1/model.onnx", "labels.txt"]
    assert [name for name, *_ in stamp_of(tmp_path / "m", skip=["1"])] == ["labels.txt"]
    assert [name for name, *_ in stamp_of(path)] == ["model.onnx"]
    assert stamp_of(tmp_path / "nowhere") == ()
    before = stamp_of(path)
    write(path, "xy")
    assert stamp_of(path) != before

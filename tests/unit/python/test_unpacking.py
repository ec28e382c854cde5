"""Archives that somebody else made: what is in them, what must not be, and that an end comes."""

import contextlib
import io
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilith.errors import SetupError
from trilith.runtime.backends.python import unpacking
from trilith.runtime.backends.python.unpacking import unpack


def entry(name, content=b"", kind=tarfile.REGTYPE, link="", mode=0o644, mtime=1_000_000_000):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.mtime, info.size = kind, link, mode, mtime, len(content)
    return info, content


def write(path, *entries, mode="w:gz"):
    with tarfile.open(path, mode, format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return path


def quiet():
    """Nobody listens."""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inside").mkdir()
    return tmp_path / "inside"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_files_folders_and_links_are_there(tmp_path, folder, mode):
    archive = write(
        tmp_path / "a",
        entry(".", kind=tarfile.DIRTYPE),
        entry("./bin", kind=tarfile.DIRTYPE, mode=0o000),
        entry("./bin/python", kind=tarfile.SYMTYPE, link="/usr/bin/python3"),
        entry("bin/tool", b"#!/bin/sh\n", mode=0o4755),
        entry("lib/deep/data", b"x" * 3_000_000),
        entry("lib/again", kind=tarfile.LNKTYPE, link="./lib/deep/data"),
        entry("lib/python", kind=tarfile.LNKTYPE, link="bin/python"),
        entry("lib/twice", b"first"),
        entry("lib/twice", b"second"),
        entry("odd", b"", mtime=1 << 60),
        mode=mode,
    )
    heard = []
    unpack(archive, folder, lambda: heard.append(1))
    assert [(folder / name / "python").readlink() for name in ("bin", "lib")] == [Path("/usr/bin/python3")] * 2
    tool = (folder / "bin" / "tool").stat()
    assert (stat.S_IMODE(tool.st_mode), tool.st_mtime) == (0o755, 1_000_000_000)
    assert (folder / "lib" / "again").read_bytes() == b"x" * 3_000_000
    assert (folder / "lib" / "twice").read_bytes() == b"second"
    assert len(heard) > 10


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([entry("../out", b"x")], "leads out of the folder"),
        ([entry("/tmp/out", b"x")], "leads out of the folder"),
        ([entry("a/../../out", b"x")], "leads out of the folder"),
        ([entry("in", kind=tarfile.LNKTYPE, link="../secret")], "leads out of the folder"),
        ([entry("in", kind=tarfile.LNKTYPE, link="nothing")], "a link to 'nothing', which is not there"),
        ([entry("pipe", kind=tarfile.FIFOTYPE)], "neither file, folder nor link"),
        ([entry("disk", kind=tarfile.BLKTYPE)], "neither file, folder nor link"),
        (
            [entry("door", kind=tarfile.SYMTYPE, link=".."), entry("door/out", kind=tarfile.SYMTYPE, link="x")],
            "'door/out', which lies behind a link",
        ),
    ],
)
def test_what_must_not_be_in_it(tmp_path, folder, entries, says):
    (tmp_path / "secret").write_text("s")
    archive = write(tmp_path / "a", *entries)
    with pytest.raises(SetupError, match=says) as caught:
        unpack(archive, folder, quiet)
    assert caught.value.message.startswith(f"{archive}: ")
    assert sorted(child.name for child in tmp_path.iterdir()) == ["a", "inside", "secret"]


def test_nothing_is_written_through_a_link(tmp_path, folder):
    """As long as files are written the link is not there; then it stands in the way of itself."""
    archive = write(tmp_path / "a", entry("door", kind=tarfile.SYMTYPE, link=".."), entry("door/out", b"x"))
    with pytest.raises(OSError, match=r"directory|permitted"):
        unpack(archive, folder, quiet)
    assert not (tmp_path / "out").exists()


def test_there_is_an_end(tmp_path, folder, monkeypatch):
    zeros = write(tmp_path / "zeros", entry("a", bytes(5_000_000)), entry("b", bytes(5_000_000)))
    assert zeros.stat().st_size < 20_000
    with pytest.raises(SetupError, match="more than the 7000000 bytes"):
        unpack(zeros, folder, quiet, most_bytes=7_000_000)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 7_000_000
    monkeypatch.setattr(unpacking, "MOST_ENTRIES", 3)
    many = write(tmp_path / "many", *(entry(f"f{number}") for number in range(4)))
    with pytest.raises(SetupError, match="more than 3 files"):
        unpack(many, folder, quiet)


def test_who_wants_it_no_more_ends_it(tmp_path, folder):
    def unwanted():
        raise SetupError("nobody wants it")

    with pytest.raises(SetupError, match="nobody wants it"):
        unpack(write(tmp_path / "a", entry("b", b"x")), folder, unwanted)


@pytest.mark.parametrize("content", [b"", b"PK\3\4 no tar", b"\x1f\x8b\x08\0\0\0"])
def test_what_is_no_archive(tmp_path, folder, content):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(SetupError, match="is no tar file that can be read"):
        unpack(tmp_path / "a", folder, quiet)


NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "", "in", "lnk"]), min_size=1, max_size=4).map("/".join)
ENTRIES = st.builds(
    entry,
    NAMES,
    kind=st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE]),
    link=NAMES,
    mtime=st.integers(-5, 1 << 40),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ENTRIES, max_size=6))
def test_whatever_is_in_it_nothing_changes_outside(tmp_path_factory, entries):
    top = tmp_path_factory.mktemp("top")
    folder = top / "up" / "inside"
    folder.mkdir(parents=True)
    (top / "secret").write_text("s")
    archive = write(top / "archive", *entries)
    before = {path: path.stat().st_mtime_ns for path in top.iterdir()}
    with contextlib.suppress(SetupError, OSError):
        unpack(archive, folder, quiet)
    assert {path: path.stat().st_mtime_ns for path in top.iterdir()} == before
    assert [child.name for child in (top / "up").iterdir()] == ["inside"]
    assert (top / "secret").read_text() == "s"

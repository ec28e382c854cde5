from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from trilith.runtime.sources.reference import WheelFile

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SOURCE = "pypi:tiny-models==1.0#tiny/models/a.onnx"


def write_wheel(folder: Path, files: dict[str, bytes] | None = None) -> Path:
    path = folder / "tiny_models-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (files or {"tiny/models/a.onnx": CONTENT, "tiny/models/b.onnx": b"b" + CONTENT}).items():
            archive.writestr(name, content)
    return path


class FakeIndex:
    """Stands in for pip: counts downloads and gives the wheel that the test wrote."""

    def __init__(self) -> None:
        self.downloads = 0
        self.files: dict[str, bytes] | None = None
        self.error: Exception | None = None
        self.damage = False

    def __call__(self, wanted: WheelFile, folder: Path, seen: Callable[[int, int | None], None]) -> Path:
        self.downloads += 1
        if self.error is not None:
            raise self.error
        seen(10, 20)
        wheel = write_wheel(folder, self.files)
        if self.damage:
            wheel.write_bytes(wheel.read_bytes()[:100])
        return wheel


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    fake = FakeIndex()
    monkeypatch.setattr("trilith.runtime.sources.resolution.download_wheel", fake)
    return fake

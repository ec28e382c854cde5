from __future__ import annotations

from pathlib import Path

import pytest
from model_files import MODELS, model_path


def test_both_models_are_pinned(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr("model_files.resolve", lambda source, **options: asked.append((source, options)) or Path("m"))
    for name in ("ocr-det", "ocr-rec"):
        assert model_path(name) == Path("m")
    assert [folder.name for folder in sorted(MODELS.iterdir())] == ["ocr-det", "ocr-rec"]
    assert all(source.startswith("pypi:rapidocr==") and len(options["sha256"]) == 64 for source, options in asked)

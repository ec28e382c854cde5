from __future__ import annotations

import contextlib
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_files import MODELS, metadata, model_path
from onnx import TensorProto, helper


def save(path: Path, entries: dict[str, str]) -> Path:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [value])
    model = helper.make_model(graph)
    for key, text in entries.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, text
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("entries", [{}, {"character": "a\nb\n한"}, {"one": "", "two": "x" * 70000}])
def test_metadata_is_read_without_loading_the_model(tmp_path: Path, entries: dict[str, str]):
    assert metadata(save(tmp_path / "m.onnx", entries)) == entries


@given(st.binary(min_size=1, max_size=60))
def test_any_other_file_is_refused_or_has_none(tmp_path_factory, content: bytes):
    path = tmp_path_factory.mktemp("m") / "m.onnx"
    path.write_bytes(content)
    with contextlib.suppress(ValueError):
        metadata(path)


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path):
    path = save(tmp_path / "m.onnx", {"character": "a" * 500})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="no ONNX model"):
        metadata(path)


def test_both_models_are_pinned(monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr("model_files.resolve", lambda source, **options: asked.append((source, options)) or Path("m"))
    for name in ("ocr-det", "ocr-rec"):
        assert model_path(name) == Path("m")
    assert [folder.name for folder in sorted(MODELS.iterdir())] == ["ocr-det", "ocr-rec"]
    assert all(source.startswith("pypi:rapidocr==") and len(options["sha256"]) == 64 for source, options in asked)

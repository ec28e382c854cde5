"""The model files of models/: where they are on this machine, and the text that they carry.

Rule: nothing here loads a model, so a process that lets the runtime run it needs no inference library.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from trilith.runtime.sources import Progress, resolve

MODELS: Final = Path(__file__).parent / "models"

# The numbers of onnx.proto: ModelProto.metadata_props, and StringStringEntryProto's two fields.
_METADATA_PROPS: Final = 14
_KEY: Final = 1
_VALUE: Final = 2


def model_path(name: str, progress: Progress | None = None) -> Path:
    """The ONNX file of a model in models/, fetched on first use.

    Raises:
        SetupError: it cannot be fetched.
    """
    configuration = yaml.safe_load((MODELS / name / "model.yaml").read_text())
    return resolve(configuration["source"], sha256=configuration["sha256"], progress=progress, base=MODELS / name)


def metadata(path: Path) -> dict[str, str]:
    """The metadata of an ONNX file. Only the outermost fields are walked; the graph is skipped, not read.

    Raises:
        ValueError: the file is no ONNX model.
    """
    found = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as model:
        for number, start, end in _fields(model, 0, len(model)):
            if number == _METADATA_PROPS:
                entry = {field: model[first:last].decode() for field, first, last in _fields(model, start, end)}
                found[entry.get(_KEY, "")] = entry.get(_VALUE, "")
    return found


def _fields(message: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The number, start and end of each field of a protobuf message that has a length (wire type 2)."""
    while at < end:
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, at = _varint(message, at)
            if at + length > end:
                raise ValueError(f"a field at byte {at} is longer than the file: this is no ONNX model")
            yield tag >> 3, at, at + length
            at += length
        else:
            raise ValueError(f"wire type {kind} at byte {at}: this is no ONNX model")


def _varint(message: mmap.mmap, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number at byte {at} has no end: this is no ONNX model")

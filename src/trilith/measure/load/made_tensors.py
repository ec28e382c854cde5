"""Tensors for a model, from what it says of its inputs: zeros, random values, or a file's. No model is known here.

Rule 1: random data is made several times over and sent in turn: a cache in the server would answer one set by itself.
Rule 2: a dimension that the model leaves open is 1 where it is the first (the batch); elsewhere the caller gives it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from trilith.core.tensor import DATATYPES, NUMPY_OF, Array, DataType
from trilith.errors import InvalidConfig, TrilithError
from trilith.wire.oip_tensor import Signature, object_array, raw_from_array

_SETS: Final = 8
_SETS_BYTES: Final = 64 << 20
_TEXT_BYTES: Final = 16
_NO_SIGNATURE: Final = Signature.of("model", (), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """An input as a model describes it: `shape` has -1 where it is open."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeTensor:
    """An input ready to be sent: its raw content in row-major order, little endian."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    raw: bytes


def made_inputs(
    specs: Sequence[InputSpec], source: str, shapes: Mapping[str, tuple[int, ...]], *, seed: int = 0
) -> list[tuple[MadeTensor, ...]]:
    """Sets of inputs, one a request, to be sent in turn.

    Args:
        specs: the model's inputs.
        source: `zero`, `random`, a JSON file as perf_analyzer reads it, or a folder with a raw file for each input.
        shapes: of inputs whose shape the model leaves open, by name.
        seed: of random values.

    Raises:
        InvalidConfig: a shape is missing or does not fit, or the file does not.
    """
    for name in shapes:
        if name not in {spec.name for spec in specs}:
            known = ", ".join(spec.name for spec in specs)
            raise InvalidConfig(f"--shape {name}: the model has no such input; it has: {known}")
    wanted = [spec for spec in specs if not spec.optional or spec.name in shapes or source not in ("zero", "random")]
    if source not in ("zero", "random"):
        return _from_path(Path(source), wanted, shapes)
    fixed = [_resolved(spec, shapes) for spec in wanted]
    draw = np.random.default_rng(seed)
    if source == "zero":
        return [tuple(_tensor(spec, _zeros(spec)) for spec in fixed)]
    first = tuple(_tensor(spec, _random(spec, draw)) for spec in fixed)
    size = max(1, sum(len(tensor.raw) for tensor in first))
    sets = max(1, min(_SETS, _SETS_BYTES // size))
    return [first, *(tuple(_tensor(spec, _random(spec, draw)) for spec in fixed) for _ in range(sets - 1))]


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Reads `NAME:1,3,224,224`.

    Raises:
        InvalidConfig: one is none.
    """
    shapes = {}
    for text in texts:
        name, _, listed = text.rpartition(":")
        parts = listed.split(",")
        if not name or not all(part.strip().isdecimal() for part in parts):
            raise InvalidConfig(f"--shape {text!r}: expected NAME:DIMENSION,DIMENSION like INPUT0:1,3,224,224")
        shapes[name] = tuple(int(part) for part in parts)
    return shapes


def _resolved(spec: InputSpec, shapes: Mapping[str, tuple[int, ...]]) -> InputSpec:
    given = shapes.get(spec.name)
    if given is None:
        shape = tuple(1 if index == 0 and size == -1 else size for index, size in enumerate(spec.shape))
    elif len(given) == len(spec.shape) - 1 and spec.shape[0] == -1:
        shape = (1, *given)  # perf_analyzer's users leave the batch out
    else:
        shape = given
    open_ones = any(size < 0 for size in shape)
    fits = len(shape) == len(spec.shape) and all(
        wanted < 0 or wanted == size for wanted, size in zip(spec.shape, shape, strict=True)
    )
    if open_ones or not fits:
        described = ",".join(map(str, spec.shape))
        what = f"got {','.join(map(str, given))}" if given is not None else "which has sizes that the model leaves open"
        raise InvalidConfig(f"--shape {spec.name}:...: expected sizes for [{described}], {what}")
    if spec.datatype not in DATATYPES:
        raise InvalidConfig(f"input {spec.name}: datatype {spec.datatype!r} is unknown here")
    return InputSpec(name=spec.name, datatype=spec.datatype, shape=shape)


def _zeros(spec: InputSpec) -> Array:
    if spec.datatype == DataType.BYTES:
        return object_array([b""] * math.prod(spec.shape), spec.shape)
    return np.zeros(spec.shape, NUMPY_OF[DataType(spec.datatype)])


def _random(spec: InputSpec, draw: np.random.Generator) -> Array:
    datatype, count = DataType(spec.datatype), math.prod(spec.shape)
    dtype = NUMPY_OF[datatype]
    if datatype is DataType.BYTES:
        letters = draw.integers(97, 123, (count, _TEXT_BYTES), np.uint8)
        return object_array([bytes(row) for row in letters], spec.shape)
    if datatype is DataType.BOOL:
        return draw.integers(0, 2, spec.shape).astype(dtype)
    if datatype is DataType.BF16:
        return (draw.random(spec.shape, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype.kind == "f":
        return draw.random(spec.shape).astype(dtype)
    highest = min(np.iinfo(dtype).max, 255)  # an index into a vocabulary is rarely beyond that
    return draw.integers(0, highest, spec.shape, endpoint=True).astype(dtype)


def _tensor(spec: InputSpec, array: Array) -> MadeTensor:
    raw = bytes(raw_from_array(_NO_SIGNATURE, spec.name, DataType(spec.datatype), array))
    return MadeTensor(name=spec.name, datatype=spec.datatype, shape=tuple(array.shape), raw=raw)


def _from_path(
    path: Path, specs: Sequence[InputSpec], shapes: Mapping[str, tuple[int, ...]]
) -> list[tuple[MadeTensor, ...]]:
    try:
        if path.is_dir():
            named = {spec.name: (path / spec.name).read_bytes() for spec in specs if (path / spec.name).is_file()}
            _check_complete(specs, named, f"--input-data {path}")
            fixed = [_resolved(spec, shapes) for spec in specs if spec.name in named]
            return [tuple(_of_raw(spec, named[spec.name], f"--input-data {path}") for spec in fixed)]
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidConfig(f"--input-data {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidConfig(f"--input-data {path}: expected JSON: {error}") from None
    entries = document.get("data") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidConfig(f'--input-data {path}: expected {{"data": [{{"INPUT": [...]}}, ...]}}')
    return [
        _of_entry(entry, specs, shapes, f"--input-data {path}: data[{index}]") for index, entry in enumerate(entries)
    ]


def _of_entry(
    entry: Mapping[str, Any], specs: Sequence[InputSpec], shapes: Mapping[str, tuple[int, ...]], where: str
) -> tuple[MadeTensor, ...]:
    _check_complete(specs, entry, where)
    found = []
    for spec in specs:
        if spec.name not in entry:
            continue
        value = entry[spec.name]
        own = value.get("shape") if isinstance(value, dict) else None
        sizes = {spec.name: tuple(own)} if isinstance(own, list) else shapes
        fixed = _resolved(spec, sizes)
        content = value.get("content", value.get("b64")) if isinstance(value, dict) else value
        if isinstance(content, str) and isinstance(value, dict) and "b64" in value:
            try:
                found.append(_of_raw(fixed, base64.b64decode(content, validate=True), where))
            except ValueError as error:
                raise InvalidConfig(f"{where}: {spec.name}: expected base64: {error}") from None
        else:
            found.append(_of_values(fixed, content, where))
    return tuple(found)


def _of_values(spec: InputSpec, content: Any, where: str) -> MadeTensor:
    datatype = DataType(spec.datatype)
    try:
        if datatype is DataType.BYTES:
            flat = list(np.asarray(content, np.object_).ravel())
            array = object_array([each.encode() if isinstance(each, str) else each for each in flat], spec.shape)
        else:
            array = np.asarray(content).astype(NUMPY_OF[datatype]).reshape(spec.shape)
        return _tensor(spec, array)
    except (ValueError, TypeError, AttributeError, TrilithError) as error:
        raise InvalidConfig(
            f"{where}: {spec.name}: expected {math.prod(spec.shape)} values of {spec.datatype}: {error}"
        ) from None


def _of_raw(spec: InputSpec, raw: bytes, where: str) -> MadeTensor:
    datatype = DataType(spec.datatype)
    expected = math.prod(spec.shape) * NUMPY_OF[datatype].itemsize
    if datatype is not DataType.BYTES and len(raw) != expected:
        raise InvalidConfig(f"{where}: {spec.name}: expected {expected} bytes for {list(spec.shape)}, got {len(raw)}")
    return MadeTensor(name=spec.name, datatype=spec.datatype, shape=spec.shape, raw=raw)


def _check_complete(specs: Sequence[InputSpec], named: Mapping[str, Any], where: str) -> None:
    missing = [spec.name for spec in specs if spec.name not in named and not spec.optional]
    if missing:
        raise InvalidConfig(f"{where}: there is nothing for {', '.join(missing)}")

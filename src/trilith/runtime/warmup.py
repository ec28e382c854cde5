"""Runs a model that is loaded, before it serves: the first request then finds everything in place.

Rule 1: each backend of the version runs every sample, in a thread as its instances are.
Rule 2: a sample that fails fails the load.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from trilith.core.foreign import named_error
from trilith.core.request import InferRequest
from trilith.core.tensor import NUMPY_OF, Array, DataType, TensorSpec
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.backends.port import Backend, Batch, RequestBackend
from trilith.runtime.signature import Offer
from trilith.runtime.spec import ModelSpec
from trilith.runtime.warmup_sample import WarmupInput, WarmupSample

FOLDER: Final = "warmup"


def check_samples(spec: ModelSpec, folder: Path) -> None:
    """Sees what is wrong with the samples, as far as the configuration says what the model takes.

    Raises:
        InvalidConfig: a sample lacks an input, has one of another type or rank, has too many rows, or its file is not
            there.
    """
    for sample in spec.warmup:
        where = f"model '{spec.name}': model_warmup: sample '{sample.name}'"
        given = {tensor.name: tensor for tensor in sample.inputs}
        if spec.max_batch_size and sample.rows > spec.max_batch_size:
            raise InvalidConfig(f"{where}: batch_size must be <= {spec.max_batch_size}, got {sample.rows}")
        for declared in spec.inputs:
            tensor = given.get(declared.name)
            if tensor is None:
                if declared.optional:
                    continue
                raise InvalidConfig(f"{where}: lacks the input '{declared.name}'")
            wrong_type = declared.datatype not in (None, tensor.datatype)
            if wrong_type or (declared.dims is not None and len(declared.dims) != len(tensor.dims)):
                shape = "its own dims" if declared.dims is None else f"dims {list(declared.dims)}"
                raise InvalidConfig(
                    f"{where}: input '{declared.name}' must be {declared.datatype} of {shape}, got {tensor.datatype} "
                    f"of dims {list(tensor.dims)}"
                )
        for tensor in sample.inputs:
            if tensor.filename and not (folder / FOLDER / tensor.filename).is_file():
                raise InvalidConfig(f"{where}: {folder / FOLDER / tensor.filename}: there is no such file")


def warm_up(spec: ModelSpec, offer: Offer, backends: Sequence[Backend | RequestBackend], folder: Path) -> None:
    """Runs the samples of the configuration. Blocks.

    Args:
        spec: the configuration.
        offer: what the model takes.
        backends: loaded.
        folder: the model's folder.

    Raises:
        SetupError: a sample does not fit the model, or fails.
    """
    for sample in spec.warmup:
        try:
            batch = _batch(spec, sample, offer, folder)
            for backend in backends:
                if isinstance(backend, RequestBackend):
                    for _ in range(sample.count):
                        backend.warm(batch.inputs, batch.outputs)
                else:
                    _run(backend, batch, sample.count)
        except Exception as error:
            said = error.message if isinstance(error, SetupError) else named_error(error)
            raise SetupError(f"model '{spec.name}': failed to run warmup sample '{sample.name}': {said}") from error


def _run(backend: Backend, batch: Batch, count: int) -> None:
    failures: list[Exception] = []

    def run() -> None:
        try:
            backend.enter_thread()
            for _ in range(count):
                backend.run(batch)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run, name="trilith warm-up", daemon=True)  # it may hang
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _batch(spec: ModelSpec, sample: WarmupSample, offer: Offer, folder: Path) -> Batch:
    if offer.generated or offer.padded or offer.ragged:
        raise SetupError("model_warmup is not offered together with padded or ragged inputs; remove one of them")
    declared = {tensor.name: tensor for tensor in offer.inputs}
    given = {tensor.name for tensor in sample.inputs}
    missing = [name for name in declared if name not in given and name not in offer.optional]
    if missing or given - declared.keys():
        raise SetupError(f"its inputs must be {', '.join(declared)}; got {', '.join(sorted(given)) or 'none'}")
    if offer.max_batch_size and sample.rows > offer.max_batch_size:
        raise SetupError(f"batch_size must be <= {offer.max_batch_size}, got {sample.rows}")
    inputs = {
        tensor.name: _inward(_array(tensor, declared[tensor.name], sample.rows, offer, folder), tensor.name, offer)
        for tensor in sample.inputs
    }
    request = InferRequest(model=spec.name, inputs=inputs)
    outputs = tuple(tensor.name for tensor in offer.outputs)
    return Batch(inputs=inputs, outputs=outputs, rows=sample.rows, requests=[request])


def _array(tensor: WarmupInput, declared: TensorSpec, rows: int, offer: Offer, folder: Path) -> Array:
    shape = (rows, *tensor.dims) if offer.max_batch_size else tensor.dims
    fits = len(shape) == len(declared.shape) and all(
        free in (-1, size) for free, size in zip(declared.shape, shape, strict=True)
    )
    if tensor.datatype is not declared.datatype or not fits:
        wanted = f"{declared.datatype} {list(declared.shape)}"
        raise SetupError(f"input '{tensor.name}' must be {wanted}, got {tensor.datatype} {list(shape)}")
    row = _row(tensor, folder)
    return np.ascontiguousarray(np.broadcast_to(row, shape)) if offer.max_batch_size else row


def _inward(array: Array, name: str, offer: Offer) -> Array:
    skip = 1 if offer.max_batch_size else 0
    reshape = offer.reshapes.get(name)
    if reshape is None:
        return array
    return array.reshape((*array.shape[:skip], *reshape.inward(array.shape[skip:])))


def _row(tensor: WarmupInput, folder: Path) -> Array:
    dtype, count = NUMPY_OF[tensor.datatype], int(np.prod(tensor.dims, dtype=np.int64))
    if tensor.filename:
        return _read(folder / FOLDER / tensor.filename, tensor, count).reshape(tensor.dims)
    if tensor.datatype is DataType.BYTES:
        return np.full(tensor.dims, b"warmup" if tensor.random else b"", np.object_)
    if not tensor.random:
        return np.zeros(tensor.dims, dtype)
    generator = np.random.default_rng(0)
    if tensor.datatype is not DataType.BF16 and dtype.kind == "f":
        return np.asarray(generator.random(tensor.dims), dtype)
    if tensor.datatype is DataType.BF16:
        return np.asarray(np.asarray(generator.random(tensor.dims), np.float32).view(np.uint32) >> 16, dtype)
    return np.asarray(generator.integers(0, 2 if dtype.kind == "b" else 100, tensor.dims), dtype)


def _read(path: Path, tensor: WarmupInput, count: int) -> Array:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SetupError(f"{path}: cannot be read: {error.strerror}") from error
    if tensor.datatype is DataType.BYTES:
        elements = _elements(raw)
        if len(elements) != count:
            raise SetupError(f"{path}: must hold {count} elements, each a 4-byte length and bytes; got {len(elements)}")
        array = np.empty(count, np.object_)
        array[:] = elements
        return array
    dtype = NUMPY_OF[tensor.datatype]
    if len(raw) != count * dtype.itemsize:
        raise SetupError(f"{path}: must have {count * dtype.itemsize} bytes, has {len(raw)}")
    return np.frombuffer(raw, dtype).copy()


def _elements(raw: bytes) -> list[bytes]:
    """What the protocol's binary form of BYTES holds; what is cut short is one element less."""
    elements, at = [], 0
    while at + 4 <= len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        if end > len(raw):
            break
        elements.append(raw[at + 4 : end])
        at = end
    return elements

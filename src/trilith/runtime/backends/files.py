"""What backends share about model files and libraries: the words of their errors, and a configuration to copy."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import SetupError, UnknownReference
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.spec import DeclaredTensor

_LONGEST_REASON = 300


def model_path(file: ModelFile) -> Path:
    """The path of the model file, which is there.

    Raises:
        UnknownReference: it is not.
        SetupError: it is empty.
    """
    path = file.path
    if path is None or not path.is_file():
        raise no_model_file(file.model, path)
    if path.stat().st_size == 0:
        raise SetupError(f"{path}: the file is empty; expected a model for the {file.spec.backend} backend")
    return path


def no_model_file(model: str, path: Path | None) -> UnknownReference:
    """The error for a path at which no file lies."""
    if path is None or not os.path.lexists(path):
        return UnknownReference(f"model '{model}': there is no model file {path}")
    return UnknownReference(f"model '{model}': {path} is {what_lies_at(path)}; expected a model file")


def what_lies_at(path: Path) -> str:
    """What is there instead of a file, in words: `a pipe`."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link that leads to nothing" if path.is_symlink() else "missing"
    except OSError as error:
        return f"not to be looked at ({error.strerror})"
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((said for is_kind, said in kinds if is_kind(mode)), "a device")


def missing_library(what: str, extra: str, error: ImportError) -> UnknownReference:
    """The error for a library that cannot be imported."""
    return UnknownReference(
        f"{what} models need a library that cannot be imported ({error}): pip install 'trilith[{extra}]'"
    )


def unreadable(path: Path, library: str, error: Exception) -> SetupError:
    """The error for a file that its library refuses, with the part of the library's message that says something."""
    return SetupError(f"{path}: {library} cannot load this file: {reason(error)}")


def reason(error: Exception) -> str:
    """The message of an error in one line, without C++ stack traces."""
    text = str(error).split("Stack trace:")[0].split("This is an internal miniz error")[0]
    lines = [line.strip() for line in text.splitlines()]
    kept = " ".join(line for line in lines if line and not line.startswith("Exception from "))
    return kept[:_LONGEST_REASON] or type(error).__name__


def full_shape(file: ModelFile, tensor: DeclaredTensor) -> tuple[int, ...]:
    """The shape that a declaration means: with the batch dimension, when `max_batch_size` says that there is one."""
    return (-1, *(tensor.model_dims or ())) if file.spec.max_batch_size else tuple(tensor.model_dims or ())


def declared_signature(file: ModelFile, tensors: Sequence[DeclaredTensor]) -> tuple[TensorSpec, ...] | None:
    """The declared tensors when each says all; None when one does not, or there is none."""
    found = [
        TensorSpec(name=tensor.name, datatype=tensor.datatype, shape=full_shape(file, tensor))
        for tensor in tensors
        if tensor.datatype is not None and tensor.dims is not None
    ]
    return tuple(found) if found and len(found) == len(tensors) else None


def must_declare(file: ModelFile, why: str, inputs: Sequence[str], outputs: Sequence[str]) -> SetupError:
    """The error for a file that does not say what the runtime must know, with a configuration to copy.

    Args:
        file: the model.
        why: what the file does not say.
        inputs: names for the example's inputs.
        outputs: names for the example's outputs.
    """
    pbtxt = file.path is not None and (file.path.parent.parent / "config.pbtxt").is_file()
    example = _pbtxt(inputs, outputs) if pbtxt else _yaml(inputs, outputs)
    return SetupError(
        f"{file.path}: {why}. Declare it in {'config.pbtxt' if pbtxt else 'model.yaml'}, with your own datatypes and "
        f"dims (-1 for any size; without the batch dimension unless max_batch_size is 0):\n{example}"
    )


def _yaml(inputs: Sequence[str], outputs: Sequence[str]) -> str:
    lines = ["max_batch_size: 8"]
    for role, names in (("inputs", inputs), ("outputs", outputs)):
        if names:
            lines += [f"{role}:", *(f"  - {{name: {name}, datatype: {DataType.FP32}, dims: [4]}}" for name in names)]
    return "\n".join(lines)


def _pbtxt(inputs: Sequence[str], outputs: Sequence[str]) -> str:
    lines = ["max_batch_size: 8"]
    for role, names in (("input", inputs), ("output", outputs)):
        lines += [f'{role} {{ name: "{name}" data_type: TYPE_FP32 dims: [ 4 ] }}' for name in names]
    return "\n".join(lines)

"""ONNX models, run by ONNX Runtime. The only file that imports it.

Rule 1: denormals are flushed in every thread that computes: in the session's own threads by ONNX Runtime, in those
    that call `run` by `denormals`, which says why. A thread that only opens a session is left as it was.
Rule 2: a session may be run by several threads at once, so instances share one: the weights are there once, and one
    thread for each instance uses the cores better than one session with several threads.
Rule 3: text crosses as bytes. Inside ONNX Runtime a string is UTF-8, so BYTES elements must be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from trilith.core.model import ModelSignature
from trilith.core.tensor import Array, DataType, TensorSpec
from trilith.errors import InvalidConfig, InvalidInput, SetupError, UnknownReference
from trilith.runtime.backends.denormals import denormals_preserved, flush_denormals
from trilith.runtime.backends.files import no_model_file
from trilith.runtime.backends.options import Options
from trilith.runtime.backends.port import Batch, ModelFile
from trilith.runtime.spec import SessionConfig

_DATATYPES: Final = {
    "tensor(bool)": DataType.BOOL,
    "tensor(uint8)": DataType.UINT8,
    "tensor(uint16)": DataType.UINT16,
    "tensor(uint32)": DataType.UINT32,
    "tensor(uint64)": DataType.UINT64,
    "tensor(int8)": DataType.INT8,
    "tensor(int16)": DataType.INT16,
    "tensor(int32)": DataType.INT32,
    "tensor(int64)": DataType.INT64,
    "tensor(float16)": DataType.FP16,
    "tensor(float)": DataType.FP32,
    "tensor(double)": DataType.FP64,
    "tensor(string)": DataType.BYTES,
}
_OPTIMIZATION: Final = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_IN_FOLDER: Final = "model.onnx"
"""The model file in a folder that stands in its place: a model with external data, as Triton lays it out."""
_FATAL_ONLY: Final = 4  # of ONNX Runtime's log severities: its errors are raised, and told in our log


class OnnxRuntimeBackend:
    """One inference session."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._session: Any = None
        self._run_options: Any = None
        self._text_inputs: tuple[str, ...] = ()
        self._text_outputs: frozenset[str] = frozenset()
        self.concurrent = True
        self.inline = False

    def load(self) -> ModelSignature:
        """Opens a session on the model file.

        Raises:
            UnknownReference: ONNX Runtime is not installed, or there is no such file.
            InvalidConfig: a session option is unknown to it.
            SetupError: the file is no model that it can run.
        """
        library, path = _library(), self._file.path
        if path is not None and path.is_dir():
            path = path / _IN_FOLDER
            if not path.is_file():
                raise UnknownReference(
                    f"model '{self._file.model}': {path.parent} is a folder without a file {_IN_FOLDER}; expected a "
                    "model file, or a folder with one of that name and its weights"
                )
        if path is None or not path.is_file():
            raise no_model_file(self._file.model, path)
        Options(self._file).finish()
        options = _session_options(library, self._file)
        try:
            with denormals_preserved():
                session = library.InferenceSession(
                    str(path), sess_options=options, providers=list(self._file.spec.session.providers)
                )
        except Exception as error:
            raise SetupError(f"{path}: ONNX Runtime cannot load this file: {_first_line(error)}") from error
        signature = ModelSignature(
            inputs=tuple(_tensor(path, "input", node) for node in session.get_inputs()),
            outputs=tuple(_tensor(path, "output", node) for node in session.get_outputs() if _is_tensor(node)),
            metadata=dict(session.get_modelmeta().custom_metadata_map),
        )
        self._session = session
        self._run_options = _run_options(library, self._file.spec.session)
        self._text_inputs = tuple(spec.name for spec in signature.inputs if spec.datatype is DataType.BYTES)
        self._text_outputs = frozenset(spec.name for spec in signature.outputs if spec.datatype is DataType.BYTES)
        return signature

    def enter_thread(self) -> None:
        """Lets the thread flush denormals, when the session should."""
        if self._file.spec.session.denormal_as_zero:
            flush_denormals()

    def run(self, batch: Batch) -> Sequence[Array]:
        """Runs the session, without the GIL.

        Raises:
            InvalidInput: a BYTES element is not UTF-8.
        """
        inputs = batch.inputs
        if self._text_inputs:
            inputs = {**inputs, **{name: _as_text(name, inputs[name]) for name in self._text_inputs}}
        outputs: list[Array] = self._session.run(list(batch.outputs), inputs, self._run_options)
        if self._text_outputs.isdisjoint(batch.outputs):
            return outputs
        return [
            _as_bytes(array) if name in self._text_outputs else array
            for name, array in zip(batch.outputs, outputs, strict=True)
        ]

    def close(self) -> None:
        """Lets go of the session, and with it of the weights."""
        self._session = None


def _library() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise UnknownReference(
            f"ONNX models need ONNX Runtime, which cannot be imported ({error}): pip install onnxruntime"
        ) from error
    return onnxruntime


def _session_options(library: Any, file: ModelFile) -> Any:
    config: SessionConfig = file.spec.session
    missing = [name for name in config.providers if name not in library.get_available_providers()]
    if missing:
        raise InvalidConfig(
            f"model '{file.model}': session.providers: {missing[0]!r} is not among those of this ONNX Runtime: "
            f"{', '.join(library.get_available_providers())}"
        )
    options = library.SessionOptions()
    options.intra_op_num_threads = config.intra_op_threads
    options.inter_op_num_threads = config.inter_op_threads
    mode = "ORT_PARALLEL" if config.parallel else "ORT_SEQUENTIAL"
    options.execution_mode = getattr(library.ExecutionMode, mode)
    options.graph_optimization_level = getattr(library.GraphOptimizationLevel, _OPTIMIZATION[config.optimization])
    options.enable_cpu_mem_arena = config.memory_arena
    options.enable_mem_pattern = config.memory_pattern
    options.log_severity_level = _FATAL_ONLY
    entries = {
        "session.set_denormal_as_zero": "1" if config.denormal_as_zero else "0",
        "session.intra_op.allow_spinning": "1" if config.spinning else "0",
        "session.inter_op.allow_spinning": "1" if config.spinning else "0",
        **config.entries,
    }
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    return options


def _run_options(library: Any, config: SessionConfig) -> Any:
    if not (config.shrink_arena and config.memory_arena):
        return None
    options = library.RunOptions()
    options.log_severity_level = _FATAL_ONLY
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return options


def _is_tensor(node: Any) -> bool:
    """Classical models also offer sequences and maps, which no protocol of ours can carry; those are left out."""
    return str(node.type).startswith("tensor(")


def _tensor(path: object, role: str, node: Any) -> TensorSpec:
    datatype = _DATATYPES.get(node.type)
    if datatype is None:
        raise SetupError(
            f"{path}: {role} '{node.name}' has type {node.type}; Trilith runs models whose {role}s are "
            f"{', '.join(_DATATYPES)}"
        )
    shape = tuple(dimension if isinstance(dimension, int) and dimension >= 0 else -1 for dimension in node.shape)
    return TensorSpec(name=node.name, datatype=datatype, shape=shape)


def _as_text(name: str, array: Array) -> Array:
    try:
        return _objects([element.decode() if isinstance(element, bytes) else element for element in array.flat], array)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"input '{name}': elements of a text input must be UTF-8: {error}") from error


def _as_bytes(array: Array) -> Array:
    return _objects([element.encode() if isinstance(element, str) else element for element in array.flat], array)


def _objects(elements: list[Any], like: Array) -> Array:
    result = np.empty(len(elements), np.object_)
    result[:] = elements
    return result.reshape(like.shape)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__

"""Models of PyTorch: TorchScript (`model.pt`) and exported programs (`model.pt2`). The only file that imports it.

Rule 1: what is in the file decides how it is read, not its name.
Rule 2: a request's tensors are copied into the model's: they may be read-only, and a model may write to its inputs.
Rule 3: numbers of threads are those of the thread that computes, so each instance's thread sets its own.
Rule 4: running changes no weights, so instances share one module.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trilith.core.model import ModelSignature
from trilith.core.tensor import NUMPY_OF, Array, DataType
from trilith.errors import InvalidConfig, InvalidInput, ModelError, SetupError
from trilith.runtime.backends.denormals import flush_denormals
from trilith.runtime.backends.files import missing_library, model_path, unreadable
from trilith.runtime.backends.options import Options, refuse_session
from trilith.runtime.backends.port import Batch, ModelFile
from trilith.runtime.backends.torch_programs import Program, exported_program, script_program

_DATATYPES: Final = {
    "torch.bool": DataType.BOOL,
    "torch.uint8": DataType.UINT8,
    "torch.uint16": DataType.UINT16,
    "torch.uint32": DataType.UINT32,
    "torch.uint64": DataType.UINT64,
    "torch.int8": DataType.INT8,
    "torch.int16": DataType.INT16,
    "torch.int32": DataType.INT32,
    "torch.int64": DataType.INT64,
    "torch.float16": DataType.FP16,
    "torch.bfloat16": DataType.BF16,
    "torch.float32": DataType.FP32,
    "torch.float64": DataType.FP64,
}


class PytorchBackend:
    """One module, in inference mode."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._torch: Any = None
        self._program: Program | None = None
        self._threads = 1
        self._optimized = self._inference_mode = True
        self._dtypes: dict[str, DataType] = {}
        self.concurrent = Options(file).switch("ENABLE_WEIGHT_SHARING", True)
        self.inline = False

    def load(self) -> ModelSignature:
        """Reads the module.

        Raises:
            UnknownReference: PyTorch is not installed, or there is no such file.
            InvalidConfig: a parameter or the name of a tensor is wrong.
            SetupError: the file is no such model, or does not say what it takes and the configuration does not either.
        """
        path, torch = model_path(self._file), _library()
        self._read_options(torch)
        members = _members(path)
        try:
            program = self._read(torch, path, members)
        except SetupError:
            raise
        except Exception as error:
            raise unreadable(path, "PyTorch", error) from error
        self._torch, self._program = torch, program
        signature = program.signature
        self._dtypes = {spec.name: spec.datatype for spec in signature.outputs}
        return signature

    def enter_thread(self) -> None:
        """Sets the calling thread's number of threads, and lets it flush denormals, when it should."""
        if self._torch is not None and self._threads:
            self._torch.set_num_threads(self._threads)
        if self._file.spec.session.denormal_as_zero:
            flush_denormals()

    def run(self, batch: Batch) -> Sequence[Array]:
        """Runs the module.

        Raises:
            InvalidInput: a BYTES element is not UTF-8.
            ModelError: an output is not of the datatype that was declared.
        """
        program, torch = self._program, self._torch
        if program is None:
            raise ModelError(f"model '{self._file.model}' is not loaded")
        kinds = {spec.name: spec.datatype for spec in program.signature.inputs}
        values = {name: _to_torch(torch, array, kinds[name]) for name, array in batch.inputs.items()}
        mode = torch.inference_mode if self._inference_mode else torch.no_grad
        with mode(), torch.jit.optimized_execution(self._optimized):
            found = program.run(values)
            return [_to_numpy(torch, name, found[name], self._dtypes[name]) for name in batch.outputs]

    def close(self) -> None:
        """Lets go of the module, and with it of the weights."""
        self._program = None

    def _read_options(self, torch: Any) -> None:
        refuse_session(self._file, ("intra_op_threads", "inter_op_threads", "denormal_as_zero"))
        session, options = self._file.spec.session, Options(self._file)
        self._threads = options.count("INTRA_OP_THREAD_COUNT", session.intra_op_threads)
        across = options.count("INTER_OP_THREAD_COUNT", session.inter_op_threads)
        self._optimized = not options.switch("DISABLE_OPTIMIZED_EXECUTION")
        self._inference_mode = options.switch("INFERENCE_MODE", True)
        options.finish()
        _set_across(torch, self._file.model, across)

    def _read(self, torch: Any, path: Path, members: frozenset[str]) -> Program:
        if "constants.pkl" in members:
            return script_program(self._file, torch.jit.load(str(path), map_location="cpu"))
        if "aotinductor" in members:
            raise SetupError(f"{path}: is compiled by AOTInductor; save it with torch.export.save instead")
        if {"archive_format", "serialized_exported_program.json"} & members:
            with path.open("rb") as opened:
                return exported_program(self._file, torch.export.load(opened), _DATATYPES)
        kept = "weights without their model" if "data.pkl" in members else "no model"
        raise SetupError(
            f"{path}: holds {kept}; expected what torch.export.save, or torch.jit.save, writes of a whole model"
        )


def _members(path: Path) -> frozenset[str]:
    """The last parts, and the last folders, of the names in the archive that a model file is."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = [name.split("/") for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError) as error:
        raise SetupError(
            f"{path}: PyTorch cannot load this file: it is no whole archive ({error}); expected what torch.export.save "
            "or torch.jit.save writes"
        ) from error
    return frozenset(part for name in parts for part in name)


def _library() -> Any:
    try:
        import torch
        import torch.export
    except ImportError as error:
        raise missing_library("PyTorch", "pytorch", error) from error
    return torch


def _set_across(torch: Any, model: str, threads: int) -> None:
    """Sets the threads across operators. PyTorch has one number for the process, which stands once it was used."""
    if threads in (0, torch.get_num_interop_threads()):
        return
    try:
        torch.set_num_interop_threads(threads)
    except RuntimeError as error:
        if threads != 1:
            raise InvalidConfig(
                f"model '{model}': session.inter_op_threads: PyTorch has one number for the whole process, which is "
                f"{torch.get_num_interop_threads()} already; got {threads}"
            ) from error


def _to_torch(torch: Any, array: Array, datatype: DataType) -> Any:
    if datatype is DataType.BYTES:
        try:
            return [element.decode() if isinstance(element, bytes) else element for element in array.flat]
        except UnicodeDecodeError as error:
            raise InvalidInput(f"elements of a text input must be UTF-8: {error}") from error
    if datatype is DataType.BF16:
        return torch.tensor(array.view(np.int16)).view(torch.bfloat16)
    return torch.tensor(array)


def _to_numpy(torch: Any, name: str, value: Any, declared: DataType) -> Array:
    if isinstance(value, list) and declared is DataType.BYTES:
        texts = np.empty(len(value), object)
        texts[:] = [str(element).encode() for element in value]
        return texts
    if not isinstance(value, torch.Tensor):
        raise ModelError(f"output '{name}' of the model is a {type(value).__name__}; expected a tensor")
    given = _DATATYPES.get(str(value.dtype))
    if given is not declared:
        raise ModelError(f"output '{name}' of the model is {value.dtype}; the configuration says {declared}")
    if given is DataType.BF16:
        value = value.view(torch.int16)
    array: Array = value.contiguous().numpy()
    return array.view(np.uint16) if given is DataType.BF16 else np.asarray(array, NUMPY_OF[declared])

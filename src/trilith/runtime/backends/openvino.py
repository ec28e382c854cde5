"""Models of OpenVINO: `model.xml` with its `.bin` beside it, or an ONNX file. The only file that imports it.

Rule 1: a compiled model may be run by several threads at once, each with an infer request of its own, so instances
    share one. It gets as many streams as there are instances.
Rule 2: weights are read into memory, not mapped: a file that is replaced does not change a model that runs.
Rule 3: BF16 crosses as its 16 bits, and text as `str`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trilith.core.model import ModelSignature
from trilith.core.tensor import Array, DataType, TensorSpec
from trilith.errors import InvalidConfig, InvalidInput, SetupError
from trilith.runtime.backends.denormals import denormals_preserved
from trilith.runtime.backends.files import missing_library, model_path, reason, unreadable
from trilith.runtime.backends.options import Options, refuse_session
from trilith.runtime.backends.parameters import passed_on
from trilith.runtime.backends.port import Batch, ModelFile

_DATATYPES: Final = {
    "boolean": DataType.BOOL,
    "u8": DataType.UINT8,
    "u16": DataType.UINT16,
    "u32": DataType.UINT32,
    "u64": DataType.UINT64,
    "i8": DataType.INT8,
    "i16": DataType.INT16,
    "i32": DataType.INT32,
    "i64": DataType.INT64,
    "f16": DataType.FP16,
    "bf16": DataType.BF16,
    "f32": DataType.FP32,
    "f64": DataType.FP64,
    "string": DataType.BYTES,
}
_RENAMED: Final = {
    "CPU_THREADS_NUM": "INFERENCE_NUM_THREADS",
    "CPU_THROUGHPUT_STREAMS": "NUM_STREAMS",
    "SKIP_DYNAMIC_BATCHSIZE": "SKIP_OV_DYNAMIC_BATCHSIZE",
}
"""OpenVINO's properties by Triton's older names."""

_PINNING: Final = {"YES": "true", "NUMA": "true", "NO": "false"}
_COMBINATIONS: Final = ("AUTO", "MULTI", "HETERO", "BATCH")
_SUFFIXES: Final = (".xml", ".onnx")


class OpenvinoBackend:
    """One compiled model."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file
        self._library: Any = None
        self._compiled: Any = None
        self._datatypes: dict[str, DataType] = {}
        self._inputs: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._own = threading.local()
        self.concurrent = True
        self.inline = False

    def load(self) -> ModelSignature:
        """Reads and compiles the model.

        Raises:
            UnknownReference: OpenVINO is not installed, or there is no such file.
            InvalidConfig: a parameter, or the device, is unknown to it.
            SetupError: the file is no model that it can run.
        """
        path, library = model_path(self._file), _library()
        device, extension, properties = _properties(self._file)
        if path.suffix not in _SUFFIXES:
            expected = " or ".join(_SUFFIXES)
            raise SetupError(f"{path}: the openvino backend tells files by their names: expected {expected}")
        core = library.Core()
        if extension:
            core.add_extension(extension)
        _see_device(self._file, device, core.available_devices)
        core.set_property({"ENABLE_MMAP": False})
        if path.suffix == ".xml":
            _see_root(path)
        try:
            model = core.read_model(str(path))
        except Exception as error:
            raise unreadable(path, "OpenVINO", error) from error
        try:
            with denormals_preserved():
                compiled = core.compile_model(model, device, properties)
        except Exception as error:
            if "property" in str(error):
                raise InvalidConfig(f"model '{self._file.model}': parameters: {reason(error)}") from error
            raise unreadable(path, "OpenVINO", error) from error
        inputs = tuple(_tensor(path, "input", at, port) for at, port in enumerate(compiled.inputs))
        outputs = tuple(_tensor(path, "output", at, port) for at, port in enumerate(compiled.outputs))
        self._library, self._compiled = library, compiled
        self._datatypes = {spec.name: spec.datatype for spec in (*inputs, *outputs)}
        self._inputs = {spec.name: at for at, spec in enumerate(inputs)}
        self._outputs = {spec.name: at for at, spec in enumerate(outputs)}
        return ModelSignature(inputs=inputs, outputs=outputs, metadata=_metadata(model))

    def enter_thread(self) -> None:
        """Makes the thread's infer request."""
        self._request()

    def run(self, batch: Batch) -> Sequence[Array]:
        """Runs the thread's infer request, without the GIL.

        Raises:
            InvalidInput: a BYTES element is not UTF-8.
        """
        request = self._request()
        tensors = {self._inputs[name]: self._to_openvino(name, array) for name, array in batch.inputs.items()}
        found = request.infer(tensors, share_inputs=True)
        return [self._to_numpy(name, found[self._outputs[name]]) for name in batch.outputs]

    def close(self) -> None:
        """Lets go of the model and of all infer requests."""
        self._compiled = None
        self._own = threading.local()

    def _request(self) -> Any:
        request = getattr(self._own, "request", None)
        if request is None:
            request = self._own.request = self._compiled.create_infer_request()
        return request

    def _to_openvino(self, name: str, array: Array) -> Any:
        datatype = self._datatypes[name]
        if datatype is DataType.BYTES:
            return _texts(name, array)
        if datatype is DataType.BF16:
            return self._library.Tensor(array, self._library.Shape(list(array.shape)), self._library.Type.bf16)
        return array

    def _to_numpy(self, name: str, array: Array) -> Array:
        if self._datatypes[name] is DataType.BYTES:
            texts = np.empty(array.size, object)
            texts[:] = [str(text).encode() for text in array.flat]
            return texts.reshape(array.shape)
        return array.view(np.uint16) if self._datatypes[name] is DataType.BF16 else array


def _properties(file: ModelFile) -> tuple[str, str, Mapping[str, str]]:
    """The device, the path of an extension or "", and OpenVINO's properties.

    Triton's older names are translated; every other parameter in capital letters is OpenVINO's own.
    """
    refuse_session(file, ("intra_op_threads", "denormal_as_zero"))
    spec, options = file.spec, Options(file)
    found = {_RENAMED.get(key, key): value for key, value in spec.parameters.items() if passed_on("openvino", key)}
    options.finish()
    if "PERFORMANCE_HINT" not in found:
        streams = spec.instances.count if spec.instances.share else 1
        found["NUM_STREAMS"] = found.get("NUM_STREAMS", str(streams)).upper()  # AUTO
        if spec.session.intra_op_threads:
            found.setdefault("INFERENCE_NUM_THREADS", str(spec.session.intra_op_threads * streams))
    if "ENFORCE_BF16" in found:
        del found["ENFORCE_BF16"]
        found["INFERENCE_PRECISION_HINT"] = "bf16" if options.switch("ENFORCE_BF16") else "f32"
    if "CPU_BIND_THREAD" in found:
        binding = found.pop("CPU_BIND_THREAD")
        if binding not in _PINNING:
            raise options.wrong("CPU_BIND_THREAD", f"must be one of {', '.join(_PINNING)}", binding)
        found["ENABLE_CPU_PINNING"] = _PINNING[binding]
    if found.pop("SKIP_OV_DYNAMIC_BATCHSIZE", "NO").upper() == "YES":
        raise InvalidConfig(
            f"model '{file.model}': parameters.SKIP_OV_DYNAMIC_BATCHSIZE: a model of one batch size is served with "
            "max_batch_size 0; remove the parameter"
        )
    if spec.session.denormal_as_zero:
        found.setdefault("CPU_DENORMALS_OPTIMIZATION", "true")
    return found.pop("TARGET_DEVICE", "CPU"), found.pop("CPU_EXTENSION_PATH", ""), found


def _see_device(file: ModelFile, device: str, available: Sequence[str]) -> None:
    for name in re.split("[:,]", device):
        if name not in (*available, *_COMBINATIONS):
            raise InvalidConfig(
                f"model '{file.model}': parameters.TARGET_DEVICE: {name!r} is not among the devices that OpenVINO "
                f"finds here: {', '.join(available)}"
            )


def _see_root(path: Path) -> None:
    """Sees that the file is OpenVINO's XML: given another file, it tries all formats that it knows, and says a lot."""
    with path.open("rb") as opened:
        head = opened.read(4096)
    if b"<net" not in head:
        raise SetupError(f"{path}: OpenVINO cannot load this file: it does not begin with <net>; expected OpenVINO IR")


def _library() -> Any:
    try:
        import openvino
    except ImportError as error:
        raise missing_library("OpenVINO", "openvino", error) from error
    return openvino


def _tensor(path: Path, role: str, at: int, port: Any) -> TensorSpec:
    name = port.get_any_name() if port.get_names() else f"{role}_{at}"
    word = port.get_element_type().get_type_name()
    datatype = _DATATYPES.get(word)
    if datatype is None:
        raise SetupError(
            f"{path}: {role} '{name}' has type {word}; Trilith runs models whose {role}s are {', '.join(_DATATYPES)}"
        )
    partial = port.get_partial_shape()
    if partial.rank.is_dynamic:
        raise SetupError(f"{path}: {role} '{name}' has any number of dimensions; Trilith needs a fixed number")
    shape = tuple(-1 if size.is_dynamic else size.get_length() for size in partial)
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def _metadata(model: Any) -> dict[str, str]:
    """The metadata of an ONNX file, which OpenVINO keeps for the framework that the model came from."""
    if not model.has_rt_info(["framework"]):
        return {}
    kept = model.get_rt_info(["framework"]).value
    return {key: text for key, text in kept.items() if isinstance(text, str)}


def _texts(name: str, array: Array) -> Array:
    try:
        texts = [element.decode() if isinstance(element, bytes) else element for element in array.flat]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"input '{name}': elements of a text input must be UTF-8: {error}") from error
    return np.array(texts, np.str_).reshape(array.shape)

"""What `import triton_python_backend_utils as pb_utils` gives a model. The names and their meaning are Triton's."""

from __future__ import annotations

from trilith.runtime.backends.python.pb_utils.control import is_model_ready, load_model, unload_model
from trilith.runtime.backends.python.pb_utils.dtypes import (
    TRITON_STRING_TO_NUMPY,
    deserialize_bytes_tensor,
    numpy_to_triton_type,
    serialize_byte_tensor,
    triton_string_to_numpy,
    triton_to_numpy_type,
)
from trilith.runtime.backends.python.pb_utils.errors import TritonError, TritonModelException
from trilith.runtime.backends.python.pb_utils.model_config import (
    ModelConfig,
    get_input_config_by_name,
    get_output_config_by_name,
    using_decoupled_model_transaction_policy,
)
from trilith.runtime.backends.python.pb_utils.observe import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Logger,
    LogLevel,
    Metric,
    MetricFamily,
    MetricKind,
)
from trilith.runtime.backends.python.pb_utils.place import get_model_dir
from trilith.runtime.backends.python.pb_utils.requests import (
    TRITONSERVER_MEMORY_CPU,
    TRITONSERVER_MEMORY_GPU,
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_END,
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,
    TRITONSERVER_REQUEST_RELEASE_ALL,
    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
    InferenceRequest,
    InferenceTrace,
    MemoryType,
    PreferredMemory,
)
from trilith.runtime.backends.python.pb_utils.response import InferenceResponse
from trilith.runtime.backends.python.pb_utils.sender import (
    TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceResponseSender,
)
from trilith.runtime.backends.python.pb_utils.tensor import Tensor

__all__ = [
    "COUNTER",
    "GAUGE",
    "HISTOGRAM",
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "LogLevel",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "ModelConfig",
    "PreferredMemory",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_model_dir",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "is_model_ready",
    "load_model",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "unload_model",
    "using_decoupled_model_transaction_policy",
]


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Tensor | None:
    """The input of that name; None when the request has none."""
    return next((tensor for tensor in inference_request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Tensor | None:
    """The output of that name; None when the response has none."""
    return next((tensor for tensor in inference_response.output_tensors() if tensor.name() == name), None)

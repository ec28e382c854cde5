"""`pb_utils.InferenceRequest`."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from trilith.core.request import Parameter
from trilith.runtime.backends.python.packing import RequestHead
from trilith.runtime.backends.python.pb_utils.errors import TritonModelException
from trilith.runtime.backends.python.pb_utils.sender import InferenceResponseSender, Reply, ReplyHandle
from trilith.runtime.backends.python.pb_utils.tensor import Tensor

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2


class MemoryType(enum.IntEnum):
    """Kinds of memory. Here everything is in the CPU's."""

    TRITONSERVER_MEMORY_CPU = 0
    TRITONSERVER_MEMORY_GPU = 1


TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU


class InferenceTrace:
    """What `request.trace()` gives, to be handed on to other requests. Nothing is traced in it."""

    def get_context(self) -> str | None:
        """The context of an OpenTelemetry trace: there is none."""
        return None


class PreferredMemory:
    """Where a caller would like outputs to be. Here everything is on the CPU."""

    def __init__(self, preferred_memory_type: int = TRITONSERVER_MEMORY_CPU, preferred_device_id: int = 0) -> None:
        self._type = preferred_memory_type
        self._device_id = preferred_device_id

    def __repr__(self) -> str:
        return f"<PreferredMemory {self._type} {self._device_id}>"


class InferenceRequest:
    """One request. Those that `execute` gets are made by the runtime.

    A model may make one too, to unit-test itself; running it on another model (`exec`) is not supported.

    Args:
        request_id: the caller's id.
        correlation_id: of the sequence.
        inputs: the inputs.
        requested_output_names: names of the outputs wanted.
        model_name: of the model that it is for.
        model_version: -1 for the default.
        flags: sequence flags.
        timeout: in microseconds.
        preferred_memory: where outputs should be.
        trace: of the request that this one belongs to; nothing is traced.
        parameters: of the request.
    """

    __slots__ = (
        "_correlation_id",
        "_flags",
        "_handle",
        "_inputs",
        "_is_cancelled",
        "_parameters",
        "_preferred_memory",
        "_request_id",
        "_requested_output_names",
        "_timeout",
        "model_name",
        "model_version",
    )

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Sequence[Tensor] = (),
        requested_output_names: Sequence[str] = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: PreferredMemory | None = None,
        trace: InferenceTrace | None = None,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> None:
        self.model_name = model_name
        self.model_version = model_version
        self._requested_output_names = list(requested_output_names)
        self._inputs = list(inputs)
        self._request_id = request_id
        self._correlation_id = correlation_id
        self._flags = flags
        self._timeout = timeout
        self._preferred_memory = preferred_memory
        self._parameters = parameters
        self._is_cancelled: Callable[[], bool] | None = None
        self._handle: ReplyHandle | None = None

    @classmethod
    def received(cls, head: RequestHead, inputs: list[Tensor], is_cancelled: Callable[[], bool]) -> InferenceRequest:
        """For the runtime: a request that came in."""
        request = cls(
            head.id, head.correlation_id, inputs, head.outputs, "", -1, head.flags, head.timeout_us, None, None
        )
        request._parameters = head.parameters
        request._is_cancelled = is_cancelled
        return request

    def inputs(self) -> list[Tensor]:
        """The inputs."""
        return self._inputs

    def request_id(self) -> str:
        """The caller's id, or ""."""
        return self._request_id

    def correlation_id(self) -> int | str:
        """The sequence's id; 0 for none."""
        return self._correlation_id

    def flags(self) -> int:
        """Sequence flags."""
        return self._flags

    def set_flags(self, flags: int) -> None:
        """Sets the sequence flags."""
        self._flags = flags

    def timeout(self) -> int:
        """The caller's time limit in microseconds; 0 for none."""
        return self._timeout

    def parameters(self) -> str:
        """The parameters as JSON: an object."""
        return json.dumps(dict(self._parameters or {}))

    def preferred_memory(self) -> PreferredMemory:
        """Where the caller would like outputs to be."""
        return self._preferred_memory or PreferredMemory()

    def requested_output_names(self) -> list[str]:
        """Names of the outputs wanted."""
        return self._requested_output_names

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._is_cancelled is not None and self._is_cancelled()

    def trace(self) -> InferenceTrace:
        """The trace of the request: an empty one."""
        return InferenceTrace()

    def get_response_sender(self) -> InferenceResponseSender:
        """What answers this request from anywhere, also after `execute` has returned: return None for it there.

        Raises:
            TritonModelException: the model made the request itself.
        """
        if self._is_cancelled is None:
            raise TritonModelException("get_response_sender: nobody asked this request; it was made by the model")
        if self._handle is None:
            self._handle = ReplyHandle()
        return InferenceResponseSender(self._is_cancelled, self._handle)

    @property
    def reply(self) -> Reply | None:
        """For the runtime: what becomes of the request, if the model has asked for its sender."""
        return None if self._handle is None else self._handle.reply

    def set_release_flags(self, flags: int) -> None:
        """Takes the default flag only.

        Raises:
            TritonModelException: rescheduling is asked for.
        """
        if flags != TRITONSERVER_REQUEST_RELEASE_ALL:
            raise TritonModelException("set_release_flags: rescheduling of requests is not supported")

    def exec(self, decoupled: bool = False) -> NoReturn:
        """Raises: not supported."""
        raise TritonModelException("exec: calling another model (BLS) is not supported")

    async def async_exec(self, decoupled: bool = False) -> NoReturn:
        """Raises: not supported."""
        raise TritonModelException("async_exec: calling another model (BLS) is not supported")

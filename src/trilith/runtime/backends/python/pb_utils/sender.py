"""`pb_utils.InferenceResponseSender`: answers a request from anywhere in the model, also after `execute` has returned.

Rule: one response a request. More of them are for decoupled models, which are not offered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from trilith.runtime.backends.python.pb_utils.errors import TritonModelException
from trilith.runtime.backends.python.pb_utils.response import InferenceResponse

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
_REFUSED = "Unable to send response. "


class InferenceResponseSender:
    """Sends the response of one request. Given by `InferenceRequest.get_response_sender`; any thread may use it."""

    def __init__(self, is_cancelled: Callable[[], bool]) -> None:
        self._is_cancelled = is_cancelled
        self._lock = threading.Lock()
        self._closed = False
        self._response: InferenceResponse | None = None
        self._on_sent: Callable[[], None] | None = None

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Sends the response, or says that there will be no more.

        Args:
            response: the response; None with the flag that ends.
            flags: 0, or `TRITONSERVER_RESPONSE_COMPLETE_FINAL`.

        Raises:
            TritonModelException: it was ended, or has sent its response already, or there is nothing to send.
        """
        final = flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL
        if flags and not final:
            raise TritonModelException(f"{_REFUSED}Unsupported flag provided.")
        if response is not None and not isinstance(response, InferenceResponse):
            raise TritonModelException(f"{_REFUSED}Expected an InferenceResponse, got {type(response).__name__:.200}.")
        if response is None and not final:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        with self._lock:
            if self._closed:
                raise TritonModelException(f"{_REFUSED}Response sender has been closed.")
            if response is not None and self._response is not None:
                raise TritonModelException(f"{_REFUSED}Non-decoupled model cannot send more than one response.")
            if response is None and self._response is None:
                raise TritonModelException(
                    f"{_REFUSED}Non-decoupled model cannot send complete final before sending a response."
                )
            self._closed = final
            self._response = self._response or response
            on_sent, self._on_sent = self._on_sent, None
        if on_sent is not None:
            on_sent()

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._is_cancelled()

    @property
    def response(self) -> InferenceResponse | None:
        """For the runtime: what was sent."""
        return self._response

    def when_sent(self, on_sent: Callable[[], None]) -> None:
        """For the runtime: calls back once when the response is sent, at once if it was. From whatever thread."""
        with self._lock:
            if self._response is None:
                self._on_sent = on_sent
                return
        on_sent()

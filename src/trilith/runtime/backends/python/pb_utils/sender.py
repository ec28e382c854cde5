"""`pb_utils.InferenceResponseSender`: answers a request from anywhere in the model, also after `execute` has returned.

Rule 1: one response a request. More of them are for decoupled models, which are not offered.
Rule 2: the runtime knows the `Reply` of a request, the model its `ReplyHandle`. When the model has let go of everything
        by which it could answer (its thread has raised, say), the handle goes, and the reply says so.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from trilith.runtime.backends.python.pb_utils.errors import TritonModelException
from trilith.runtime.backends.python.pb_utils.response import InferenceResponse

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
_REFUSED = "Unable to send response. "


class Reply:
    """What becomes of one request, for the runtime.

    Attributes:
        response: what was sent.
        lost: nothing can be sent any more.
    """

    __slots__ = ("_closed", "_lock", "_on_end", "lost", "response")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the collector may let go of a handle at any place, here too
        self._closed = False
        self.lost = False
        self.response: InferenceResponse | None = None
        self._on_end: Callable[[], None] | None = None

    def send(self, response: InferenceResponse | None, *, final: bool) -> None:
        """See `InferenceResponseSender.send`."""
        with self._lock:
            if self._closed:
                raise TritonModelException(f"{_REFUSED}Response sender has been closed.")
            if response is not None and self.response is not None:
                raise TritonModelException(f"{_REFUSED}Non-decoupled model cannot send more than one response.")
            if response is None and self.response is None:
                raise TritonModelException(
                    f"{_REFUSED}Non-decoupled model cannot send complete final before sending a response."
                )
            self._closed = final
            self.response = self.response or response
            on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def lose(self) -> None:
        """Nobody can send it any more."""
        with self._lock:
            self.lost = self.response is None
            on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    @property
    def ended(self) -> bool:
        """Whether the response was sent, or never will be."""
        return self.response is not None or self.lost

    def when_ended(self, on_end: Callable[[], None]) -> None:
        """Calls back once when the response is sent or lost, at once if it was. From whatever thread."""
        with self._lock:
            if not self.ended:
                self._on_end = on_end
                return
        on_end()


class ReplyHandle:
    """What the model holds of a reply, by its request and its sender."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply = Reply()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.reply.lose()


class InferenceResponseSender:
    """Sends the response of one request. Given by `InferenceRequest.get_response_sender`; any thread may use it."""

    def __init__(self, is_cancelled: Callable[[], bool], handle: ReplyHandle | None = None) -> None:
        self._is_cancelled = is_cancelled
        self._handle = handle if handle is not None else ReplyHandle()

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
        self._handle.reply.send(response, final=final)

    def is_cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._is_cancelled()

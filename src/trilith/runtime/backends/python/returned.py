"""What `execute` returned, checked as Triton checks it, with its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilith.runtime.backends.python.pb_utils.errors import TritonModelException
from trilith.runtime.backends.python.pb_utils.requests import InferenceRequest
from trilith.runtime.backends.python.pb_utils.response import InferenceResponse


def checked_responses(returned: Any, requests: Sequence[InferenceRequest]) -> Sequence[InferenceResponse | None]:
    """The response of each request; None for one whose sender has it, or will have it.

    Raises:
        TritonModelException: it is something else, or a request has two responses or can have none.
    """
    if returned is None and all(request.reply is not None for request in requests):
        return [None] * len(requests)
    if not isinstance(returned, list):
        raise TritonModelException(f"Expected a list in the execute return, found type '{type(returned)}'.")
    if len(returned) != len(requests):
        raise TritonModelException(
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            f"InferenceRequest(s) size is:{len(requests)}, and InferenceResponse(s) size is:{len(returned)}\n"
        )
    for request, response in zip(requests, returned, strict=True):
        if response is None and request.reply is not None:
            continue
        if not isinstance(response, InferenceResponse):
            raise TritonModelException(
                "Expected an 'InferenceResponse' object in the execute function return list, found type "
                f"'{type(response)}'."
            )
        if request.reply is not None and request.reply.response is not None:
            raise TritonModelException(
                "Unable to send response. Non-decoupled model cannot send more than one response."
            )
    return returned

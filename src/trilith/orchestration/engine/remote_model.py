"""How a service in a worker runs a model of the node's runtime: over its connection to the gateway."""

from __future__ import annotations

from collections.abc import Mapping

from trilith.core.request import InferRequest
from trilith.core.tensor import Array
from trilith.core.timeline import Timeline
from trilith.orchestration.engine.model_wire import INFER, SIGNATURE, unpack_signature
from trilith.orchestration.engine.remote import GatewayLink
from trilith.service import ModelSignature, context, tracing
from trilith.wire.calls import TENSORS_CONTENT_TYPE, CallMeta
from trilith.wire.tensors import pack_request, unpack_response


class RemoteModel:
    """Runs one model of the node's runtime through the gateway."""

    def __init__(self, reference: str, link: GatewayLink) -> None:
        self._reference = reference
        self._link = link

    async def signature(self) -> ModelSignature:
        """What the model takes and gives; waits until the node has loaded it.

        Raises:
            TrilithError: it cannot be loaded there.
        """
        made_for = context()
        meta = CallMeta("", SIGNATURE, self._reference, made_for.request_id)
        _, buffers = await self._link.send(meta, [], made_for)
        return unpack_signature(buffers[0])

    async def infer(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name: views of received memory, this caller's alone."""
        made_for = context()
        request = InferRequest(model=self._reference, inputs=dict(inputs))
        meta = CallMeta("", INFER, TENSORS_CONTENT_TYPE, made_for.request_id, None, tracing.get())
        result, buffers = await self._link.send(meta, pack_request(request), made_for)
        if result.timeline is not None:
            made_for.timeline.adopt(Timeline.from_builtins(result.timeline))
        return unpack_response(buffers).outputs

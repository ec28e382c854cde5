"""Server reflection over gRPC, both editions: a `GrpcService` over `trilith.wire.grpc_reflection`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trilith.net.grpc.call import GrpcCall
from trilith.net.grpc.state import GrpcApp
from trilith.wire.grpc_reflection import EDITIONS, DescriptorIndex, answer, reflection_messages

if TYPE_CHECKING:
    from google.protobuf.descriptor import ServiceDescriptor


class ReflectionService:
    """A `GrpcService`.

    Args:
        services: the descriptors of what is served beside reflection itself.
    """

    def __init__(self, services: Sequence[ServiceDescriptor]) -> None:
        self.show(services)
        self.methods: dict[bytes, GrpcApp] = {
            b"/grpc.reflection.%b.ServerReflection/ServerReflectionInfo" % edition.encode(): functools.partial(
                self._info, edition
            )
            for edition in EDITIONS
        }
        self.streaming = tuple(self.methods)

    def show(self, services: Sequence[ServiceDescriptor]) -> None:
        """Tells of these from now on, and of reflection itself."""
        own = [reflection_messages(edition).service for edition in EDITIONS]
        self._index = DescriptorIndex([*services, *own])

    async def _info(self, edition: str, call: GrpcCall) -> None:
        async for message in call.messages():
            await call.send(answer(self._index, edition, message))
        call.finish()

"""A descriptor set as descriptors and message classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilith.errors import InvalidConfig
from trilith.wire.grpc_descriptors import read_descriptor_set

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, ServiceDescriptor


class Schema:
    """The files of one service.

    Attributes:
        descriptor_set: all of them, serialised, each behind those that it imports.
    """

    def __init__(self, descriptor_set: bytes, where: str) -> None:
        """Reads a serialised `FileDescriptorSet`.

        Raises:
            InvalidConfig: it is none, or protobuf here cannot read it.
        """
        self.descriptor_set = descriptor_set
        try:
            self._pool, self._files = read_descriptor_set(descriptor_set)
        except (TypeError, ValueError) as error:
            raise InvalidConfig(f"{where}: the descriptors cannot be read: {error}") from error

    @property
    def services(self) -> list[str]:
        """Full names of the services of the last file, the one that was asked for."""
        file = self._pool.FindFileByName(self._files[-1])
        return [service.full_name for service in file.services_by_name.values()]

    def service(self, name: str) -> ServiceDescriptor | None:
        """The service of that full name, or None."""
        try:
            return self._pool.FindServiceByName(name)
        except KeyError:
            return None


def message_class(descriptor: Descriptor) -> Any:
    """The class of a message."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(descriptor)

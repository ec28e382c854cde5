"""The declaration of a mount, as data."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from trilith.service.mounts.declare import MOUNT_ATTRIBUTE, Mount, MountOptions

if TYPE_CHECKING:
    from trilith.service.mounts.port import MountedApp, MountPlace
    from trilith.service.spec import ServiceSpec


class MountSpec:
    """One mount of a service.

    Attributes:
        name: of the attribute that declares it.
        path: where it is.
    """

    def __init__(self, name: str, service: ServiceSpec, options: MountOptions, source: object) -> None:
        self.name = name
        self.path = options.path
        self._service = service
        self._options = options
        self._source = source

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self._service.name}: the mount at {self.path}"

    @property
    def timeout_s(self) -> float:
        """Seconds to the beginning of an answer."""
        own = self._options.timeout_s
        return self._service.options.timeout_s if own is None else own

    @property
    def documentation(self) -> str:
        """The docstring of a method that makes the application; else ""."""
        return (inspect.getdoc(self._source) or "") if inspect.isfunction(self._source) else ""

    async def open(self, place: MountPlace) -> MountedApp:
        """The application of one instance.

        Raises:
            SetupError: there is none.
        """
        from trilith.service.mounts.finding import open_app

        return await open_app(self._source, place)


def mount_in(name: str, value: Any, service: ServiceSpec) -> MountSpec | None:
    """The mount that an attribute of a class declares, or None."""
    if isinstance(value, Mount):
        return MountSpec(name, service, value.options, value.app)
    options = getattr(value, MOUNT_ATTRIBUTE, None)
    return MountSpec(name, service, options, value) if isinstance(options, MountOptions) else None

"""What a target declares, as values. Pure."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trilith.measure.tune.space import Value


class DeclaredMethod(msgspec.Struct, frozen=True, kw_only=True):
    """A method: its name, its first path, and whether it is batched."""

    name: str
    path: str
    batched: bool


class DeclaredService(msgspec.Struct, frozen=True, kw_only=True):
    """A service, with the models of the node that it uses."""

    name: str
    methods: list[DeclaredMethod]
    models: list[str]


class DeclaredModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model.

    Attributes:
        name: its name.
        folder: where it lies.
        batches: whether it takes batches, as far as its configuration tells.
        threads: whether the number of threads of its sessions can be set.
    """

    name: str
    folder: str
    batches: bool
    threads: bool


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What a target declares.

    Attributes:
        services: the root first; empty for a folder of models.
        models: those of the folder, or those that the services have the node host.
        values: what can be set, by path, as it is without tuning.
        files: what it is made of: the modules that importing it loaded and that lie in its folders, or the folder of
            models itself. Without what is installed.
    """

    services: list[DeclaredService]
    models: list[DeclaredModel]
    values: dict[str, Value]
    files: list[str] = []

    @property
    def places(self) -> tuple[Path, ...]:
        """Its files and the folders of its models."""
        return tuple(map(Path, [*self.files, *(model.folder for model in self.models)]))

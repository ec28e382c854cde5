"""Loading one version of a model: slow and blocking, so it runs in a loading thread.

Rule 1: whatever a backend raises becomes a `SetupError` that names the model; a half-loaded backend is closed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from trilith.core.foreign import named_error
from trilith.core.model import ModelSignature
from trilith.errors import SetupError
from trilith.runtime.backends.port import Backend, ModelFile
from trilith.runtime.backends.reduced import ReducedBackend
from trilith.runtime.repository import ModelPlan, read_labels
from trilith.runtime.served import batching_config
from trilith.runtime.signature import Offer, complete
from trilith.runtime.sources.progress import Progress
from trilith.runtime.spec import ModelSource


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedVersion:
    """A version that is ready to serve.

    Attributes:
        backends: one for all instances, or one for each.
        offer: what clients may send and get.
        signature: what the model says of itself.
        labels: labels of outputs that have them.
    """

    backends: tuple[Backend, ...]
    offer: Offer
    signature: ModelSignature
    labels: dict[str, tuple[str, ...]]

    def close(self) -> None:
        """Frees it. For a version that is not served after all."""
        for backend in self.backends:
            backend.close()


def load_version(plan: ModelPlan, file: ModelFile, progress: Progress) -> LoadedVersion:
    """Fetches the file if it must be (telling `progress`), and loads it as often as the instances need.

    Raises:
        SetupError: why it cannot be served; the message names the model and the file.
    """
    backends: list[Backend] = []
    try:
        if file.spec.source is not None:
            file = replace(file, path=_fetch(file.spec.source, plan.folder, progress))
        signature = _add(backends, plan, file)
        offer = complete(plan.spec, signature)
        batching_config(plan.spec, offer)
        shared = plan.spec.instances.share and backends[0].concurrent
        for instance in range(1, 1 if shared else plan.spec.instances.count):
            _add(backends, plan, replace(file, instance=instance))
        labels = read_labels(plan.folder, plan.spec)
    except Exception as error:
        for backend in backends:
            backend.close()
        if isinstance(error, SetupError):
            raise
        raise SetupError(f"model '{file.model}' version {file.version}: {named_error(error)}") from error
    return LoadedVersion(
        backends=tuple(backends),
        offer=offer,
        signature=signature,
        labels=labels,
    )


def _add(backends: list[Backend], plan: ModelPlan, file: ModelFile) -> ModelSignature:
    backend = plan.kind.create(file)
    if plan.spec.reductions:
        backend = ReducedBackend(backend, plan.spec.reductions)
    backends.append(backend)
    return backend.load()


def _fetch(source: ModelSource, folder: Path, progress: Progress) -> Path:
    from trilith.runtime.sources import resolve

    return resolve(source.reference, sha256=source.sha256, progress=progress, base=folder)

"""Loading one version of a model: slow and blocking, so it runs in a loading thread.

Rule 1: whatever a backend raises becomes a `SetupError` that names the model; a half-loaded backend is closed.
Rule 2: between its steps it looks whether anybody still wants it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from trilith.core.foreign import named_error
from trilith.core.model import ModelSignature
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime.backends.port import Backend, ModelFile, RequestBackend
from trilith.runtime.backends.reduced import ReducedBackend
from trilith.runtime.batching import batching_config
from trilith.runtime.load_run import LoadRun
from trilith.runtime.public_cause import public_cause
from trilith.runtime.repository import ModelPlan, read_labels
from trilith.runtime.signature import Offer, complete
from trilith.runtime.sources.progress import FetchEvent, Progress
from trilith.runtime.spec import ModelSource, ModelSpec
from trilith.runtime.warmup import warm_up
from trilith.runtime.words import in_words

_log: Final = logging.getLogger("trilith.runtime")
_PROCESSES_AT_ONCE: Final = 4


class LoadFailed(SetupError):
    """Versions of a model cannot be loaded.

    Args:
        name: the model's name.
        causes: why, by version.

    Attributes:
        public: the message as any client may know it.
    """

    def __init__(self, name: str, causes: Mapping[str, Exception]) -> None:
        super().__init__(_told(name, {version: str(cause) for version, cause in causes.items()}))
        self.causes = list(causes.values())
        self.public = _told(name, {version: public_cause(str(cause), name) for version, cause in causes.items()})


def _told(name: str, causes: Mapping[str, str]) -> str:
    def why(version: str) -> str:
        return causes[version].removeprefix(f"model '{name}' version {version}: ")

    told = "; ".join(f"version {version} is at UNAVAILABLE state: {why(version)}" for version in causes)
    return f"load failed for model '{name}': {told};"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedVersion:
    """A version that is ready to serve.

    Attributes:
        backends: one for all instances, or one for each.
        spec: the configuration, with what the model completed of it.
        offer: what clients may send and get.
        signature: what the model says of itself.
        labels: labels of outputs that have them.
        load_s: seconds that it took.
    """

    backends: tuple[Backend | RequestBackend, ...]
    spec: ModelSpec
    offer: Offer
    signature: ModelSignature
    labels: dict[str, tuple[str, ...]]
    load_s: float

    def close(self) -> None:
        """Frees it. For a version that is not served after all."""
        close_all(self.backends)


def close_all(backends: Sequence[Backend | RequestBackend]) -> None:
    """Frees loaded models that nobody will run. One that cannot be freed is logged, and keeps none of the others."""
    for backend in backends:
        try:
            backend.close()
        except Exception:  # noqa: BLE001 - a backend's own code
            _log.exception("a loaded model cannot be freed")


def load_version(plan: ModelPlan, file: ModelFile, progress: Progress, run: LoadRun) -> LoadedVersion:
    """Fetches the file if it must be (telling `progress`), and loads it as often as the instances need.

    Raises:
        SetupError: why it cannot be served; the message names the model and the file.
    """
    backends: list[Backend | RequestBackend] = []
    began = time.monotonic()
    try:
        if file.spec.source is not None:
            run.enter("fetching its file")
            file = replace(file, path=_fetch(file.spec.source, plan.folder, _heard(progress, run)))
        run.enter("loading")
        signature = _add(backends, plan, file, run)
        first = backends[0]
        spec = first.completed() if isinstance(first, RequestBackend) else plan.spec
        offer = complete(spec, signature)
        if isinstance(first, RequestBackend) and (offer.padded or spec.batch_inputs or spec.batch_outputs):
            raise InvalidConfig(
                f"model '{file.model}': pad, batch_input and batch_output are not offered for backend "
                f"{spec.backend!r}, which gets each request by itself; remove them"
            )
        _see_queue(spec, offer, plan)
        shared = spec.instances.share and first.concurrent
        others = [
            replace(file, spec=spec, instance=instance) for instance in range(1, 1 if shared else spec.instances.count)
        ]
        if isinstance(first, RequestBackend):  # processes, which load side by side
            with ThreadPoolExecutor(_PROCESSES_AT_ONCE) as pool:
                list(pool.map(lambda other: _add(backends, plan, other, run), others))
        else:
            for other in others:
                _add(backends, plan, other, run)
        labels = read_labels(plan.folder, plan.spec)
        run.enter("warming up")
        warm_up(spec, offer, backends, plan.folder)
    except Exception as error:
        close_all(backends)
        if isinstance(error, SetupError):
            raise
        raise SetupError(f"model '{file.model}' version {file.version}: {named_error(error)}") from error
    return LoadedVersion(
        backends=tuple(backends),
        spec=spec,
        offer=offer,
        signature=signature,
        labels=labels,
        load_s=time.monotonic() - began,
    )


def _see_queue(spec: ModelSpec, offer: Offer, plan: ModelPlan) -> None:
    try:
        batching_config(spec, offer)
    except InvalidConfig as error:
        raise InvalidConfig(f"{plan.said_in or plan.folder}: {in_words(error.message, plan.words)}") from error


def load_more(plan: ModelPlan, file: ModelFile, count: int, run: LoadRun) -> Sequence[Backend]:
    """As many more backends for a version that is served already.

    Raises:
        SetupError: one cannot be loaded; then there is none.
    """
    backends: list[Backend | RequestBackend] = []
    try:
        run.enter("loading")
        for _ in range(count):
            signature = _add(backends, plan, file, run)
        run.enter("warming up")
        if backends:
            warm_up(plan.spec, complete(plan.spec, signature), backends, plan.folder)
    except Exception as error:
        close_all(backends)
        if isinstance(error, SetupError):
            raise
        raise SetupError(f"model '{file.model}' version {file.version}: {named_error(error)}") from error
    return [backend for backend in backends if not isinstance(backend, RequestBackend)]


def _add(backends: list[Backend | RequestBackend], plan: ModelPlan, file: ModelFile, run: LoadRun) -> ModelSignature:
    backend = plan.kind.create(file)
    if plan.spec.reductions:
        if isinstance(backend, RequestBackend):
            raise InvalidConfig(
                f"model '{file.model}': outputs: reduce: is not offered for backend {plan.spec.backend!r}; remove it"
            )
        backend = ReducedBackend(backend, plan.spec.reductions)
    run.add(backend)
    backends.append(backend)
    return backend.load()


def _heard(progress: Progress, run: LoadRun) -> Progress:
    """The same, by which a fetch that gets on is not taken for one that hangs."""

    def told(event: FetchEvent) -> None:
        run.heard()
        progress(event)

    return told


def _fetch(source: ModelSource, folder: Path, progress: Progress) -> Path:
    from trilith.runtime.sources import resolve

    return resolve(source.reference, sha256=source.sha256, progress=progress, base=folder)

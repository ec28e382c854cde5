"""What the outside may know of one model version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilith.core.tensor import TensorSpec
from trilith.runtime.backends.port import LifeReport
from trilith.runtime.life import ModelEvent, ModelState, next_state
from trilith.runtime.loading import LoadedVersion
from trilith.runtime.public_cause import public_cause
from trilith.runtime.spec import ModelSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_REASONS: Final = {
    ModelEvent.FAILED: "failed to load",
    ModelEvent.UNLOADED: "unloaded",
    ModelEvent.STOPPED: "the runtime was stopped",
    ModelEvent.LOST: "no instance is alive",
}


class ModelHandle:
    """One version of a model, loaded or not. The runtime changes it; everyone else reads.

    Attributes:
        name: the model's name.
        namespace: the repository that it is of, where those are namespaces; else "".
        version: the version; "" when the model could not even be planned.
        state: where it is in its life.
        reason: why it is in that state; "" when there is nothing to say.
        config: its configuration.
        filename: name of the model file; "" where there is none.
        inputs: what clients send, with full shapes; empty until it is loaded.
        outputs: what they get; empty until it is loaded.
        max_batch_size: most rows of a request; 0 when there is no batch dimension.
        labels: labels of outputs that have them.
        metadata: free text that the model file carries.
        load_s: seconds that loading it took; None until it is loaded.
        ask_ready: asks the model itself whether it is ready; None where it has no say.
        recovering: whether it is not ready only because its instances died and are being started again: requests wait.
    """

    __slots__ = (
        "_last_event",
        "_siblings",
        "ask_ready",
        "config",
        "filename",
        "inputs",
        "labels",
        "load_s",
        "max_batch_size",
        "metadata",
        "name",
        "namespace",
        "outputs",
        "platform",
        "reason",
        "recovering",
        "state",
        "version",
    )

    def __init__(
        self,
        config: ModelSpec,
        version: str,
        siblings: list[ModelHandle],
        *,
        platform: str = "",
        filename: str = "",
        namespace: str = "",
    ) -> None:
        self.name = config.name
        self.namespace = namespace
        self.version = version
        self.config = config
        self.platform = config.platform or platform
        self.filename = config.filename or filename
        self.state = ModelState.LOADING
        self.reason = ""
        self.recovering = False
        self.load_s: float | None = None
        self.inputs: tuple[TensorSpec, ...] = ()
        self.outputs: tuple[TensorSpec, ...] = ()
        self.max_batch_size = 0
        self.labels: Mapping[str, tuple[str, ...]] = {}
        self.metadata: Mapping[str, str] = {}
        self._siblings = siblings
        self.ask_ready: Callable[[], Awaitable[bool]] | None = None
        self._last_event: ModelEvent | None = None

    @property
    def backend(self) -> str:
        """The backend that runs it."""
        return self.config.backend

    @property
    def metric_tags(self) -> Mapping[str, str]:
        """Further labels of its metrics that have Triton's names."""
        return self.config.metric_tags

    @property
    def ready(self) -> bool:
        """Whether requests may be sent."""
        return self.state is ModelState.READY

    async def says_ready(self) -> bool:
        """Whether it is ready and, where the model has a say in that, says so itself."""
        return self.ready and (self.ask_ready is None or await self.ask_ready())

    @property
    def unloaded(self) -> bool:
        """Whether somebody wanted it unloaded, and it is."""
        return self._last_event is ModelEvent.UNLOADED

    @property
    def public_reason(self) -> str:
        """The reason as any client may know it: without the files of this machine."""
        return public_cause(self.reason, self.name)

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of the model that are ready, ascending."""
        return tuple(handle.version for handle in self._siblings if handle.ready)

    def became_ready(self, loaded: LoadedVersion) -> None:
        """Notes what loading found. For the runtime."""
        self.config = loaded.spec
        self.load_s = loaded.load_s
        self.inputs, self.outputs = loaded.offer.inputs, loaded.offer.outputs
        self.max_batch_size = loaded.offer.max_batch_size
        self.labels, self.metadata = loaded.labels, loaded.signature.metadata
        self.became(ModelEvent.LOADED)

    def became(self, event: ModelEvent, reason: str = "") -> None:
        """Notes what happened, and why if that is not always the same. For the runtime.

        Raises:
            Bug: it cannot happen in this state.
        """
        self.state = next_state(self.state, event)
        self.recovering = False
        self._last_event = event
        self.reason = reason or _REASONS.get(event, "")

    def changed_life(self, report: LifeReport) -> None:
        """Notes that its instances all died, or that one lives again. For the runtime."""
        if report.alive:
            if self._last_event is ModelEvent.LOST:
                self.became(ModelEvent.RESTORED)
                self.reason = ""
        elif self.ready or self._last_event is ModelEvent.LOST:
            self.became(ModelEvent.LOST, report.reason)
            self.recovering = not report.over

    def config_proto(self) -> Any:
        """The configuration as Triton's `ModelConfig` message, completed with what the model says of itself."""
        from trilith.runtime.model_proto import model_config

        return model_config(self)

    def __repr__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"<ModelHandle {self.name}/{self.version} {self.state}{why}>"

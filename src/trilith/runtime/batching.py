"""What a model's configuration means for its queue."""

from __future__ import annotations

from typing import Final

from trilith.runtime.backends.port import Backend, RequestBackend
from trilith.runtime.schedule import BatchingConfig
from trilith.runtime.signature import Offer
from trilith.runtime.spec import ModelSpec

_DEFAULT_QUEUE_ROWS: Final = 1024


def check_queue(spec: ModelSpec) -> None:
    """Sees that what a configuration says of its queue fits together, as far as it says how large a batch may be.

    Raises:
        InvalidConfig: as `batching_config`.
    """
    if spec.max_batch_size is not None:
        _config(spec, spec.max_batch_size)


def batching_config(spec: ModelSpec, offer: Offer) -> BatchingConfig:
    """The limits of a model's queue.

    Raises:
        InvalidConfig: they contradict each other.
    """
    return _config(spec, offer.max_batch_size)


def _config(spec: ModelSpec, max_batch_size: int) -> BatchingConfig:
    max_batch_size = max(1, max_batch_size)
    queue = spec.queue
    default_rows = max(_DEFAULT_QUEUE_ROWS, 4 * max_batch_size)
    if queue.max_queue_rows is None and queue.max_queue_size:
        # The bound on requests is the one that counts.
        default_rows = max(default_rows, queue.max_queue_size * max_batch_size)
    return BatchingConfig(
        max_batch_size=max_batch_size,
        preferred_rows=queue.preferred_rows,
        max_wait_s=queue.max_wait_s,
        max_queue_rows=default_rows if queue.max_queue_rows is None else queue.max_queue_rows,
        max_queue_size=queue.max_queue_size,
        level_queue_size=queue.policy.max_queue_size,
        level_queue_sizes={level: policy.max_queue_size for level, policy in queue.level_policies.items()},
        alone=not queue.batching,
    )


def learns(spec: ModelSpec, offer: Offer, backend: Backend | RequestBackend) -> bool:
    """Whether batch sizes are learned: there must be a choice, and more than microseconds to win."""
    return spec.queue.learns and offer.max_batch_size > 1 and not getattr(backend, "inline", False)

"""Tests of mounted applications without a server: `trilith.current_service()` as it is below a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from trilith.service.mounts.current import current_instance

InstanceT = TypeVar("InstanceT")


@contextmanager
def answering(instance: InstanceT) -> Iterator[InstanceT]:
    """Within the block `trilith.current_service()` is `instance`, also in what a framework's test client calls.

        with answering(Shop()) as shop:
            assert TestClient(shop.ui()).get("/sold").json() == []

    Args:
        instance: of a service; it is not hosted, and none of its hooks are called.
    """
    before = current_instance.set(instance)
    try:
        yield instance
    finally:
        current_instance.reset(before)

"""The processes of one server: the gateway and the workers, what they are told, and in which order they end. Doer.

Rule 1: who has exited is told nothing. The gateway drains first, since it needs the workers for what is in flight.
Rule 2: all of them have ended a second after the time that requests in flight get; what has not by then is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Coroutine
from typing import Any, Final

from trilith.orchestration import orders
from trilith.orchestration.engine import control
from trilith.orchestration.engine.described import DeclaredApplication
from trilith.orchestration.engine.process import ChildProcess
from trilith.orchestration.reconcile import Limits

_GRACE_S: Final = 1.0

ChildOrder = (
    orders.DeployRevision[DeclaredApplication]
    | orders.PublishRevision
    | orders.WithdrawReplica
    | orders.StopReplica
    | orders.KillReplica
    | orders.KillGateway
    | orders.KillAll
)


class Children:
    """The running processes.

    Attributes:
        gateway: the one that was started last, None before the first.
        workers: by replica id, until their exit is seen.
    """

    def __init__(self, limits: Limits) -> None:
        self.gateway: ChildProcess | None = None
        self.workers: dict[int, ChildProcess] = {}
        self._limits = limits

    def to_gateway(self, message: control.AnyMessage) -> None:
        """Tells the gateway something, if there is one."""
        if self.gateway is not None:
            self.gateway.channel.send(message)

    def obey(self, order: ChildOrder) -> None:
        """Carries out an order."""
        match order:
            case orders.DeployRevision():
                described = order.revision.content.described
                self.to_gateway(
                    control.Deploy(
                        description=described.description,
                        revision=order.revision.number,
                        model_roots=described.model_roots,
                        publish=order.publish,
                    )
                )
            case orders.PublishRevision():
                self.to_gateway(control.Publish(revision=order.revision))
            case orders.WithdrawReplica():
                self.to_gateway(control.RemoveReplica(replica_id=order.replica_id))
            case orders.StopReplica():
                if order.replica_id in self.workers:
                    stop = control.Stop(timeout_s=self._limits.stop_s, at_once=order.at_once)
                    self.workers[order.replica_id].channel.send(stop)
            case orders.KillReplica():
                if order.replica_id in self.workers:
                    self.workers[order.replica_id].kill()
            case orders.KillGateway():
                self._kill_gateway()
            case orders.KillAll():
                for worker in self.workers.values():
                    worker.abandon()
                self._kill_gateway()

    def _kill_gateway(self) -> None:
        if self.gateway is not None:
            self.gateway.kill()

    async def end(self, starting: Container[int]) -> None:
        """Ends all, in order; what has not ended in its time is killed.

        Args:
            starting: the replicas that hold no request, and may be in the middle of a long import: killed at once.
        """
        now = asyncio.get_running_loop().time
        limits, gateway = self._limits, self.gateway
        ends_at = now() + limits.drain_s + _GRACE_S
        ending: list[Coroutine[Any, Any, None] | asyncio.Task[None]] = []
        if gateway is not None and gateway.alive:
            gateway.channel.send(control.Stop(timeout_s=limits.drain_s))
            drain = asyncio.ensure_future(gateway.end_within(limits.drain_s + _GRACE_S))
            ending.append(drain)
            # Then the drain is over, whether or not the gateway still has models to let go of.
            await asyncio.wait({drain}, timeout=limits.drain_s + _GRACE_S / 4)
        left_s = ends_at - now()
        for replica_id, worker in self.workers.items():
            stop_s = max(0.0, min(limits.stop_s, left_s - _GRACE_S / 2))
            worker.channel.send(control.Stop(timeout_s=stop_s, at_once=True))
            if replica_id in starting:
                worker.kill()
            ending.append(worker.end_within(max(0.0, min(limits.stop_s + _GRACE_S, left_s))))
        await asyncio.gather(*ending)

"""The processes of one server: the gateway and the workers, what they are told, and in which order they end. Doer.

Rule: who has exited is told nothing. The gateway ends first, since it needs the workers for what is in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container

from trilith.orchestration import orders
from trilith.orchestration.engine import control
from trilith.orchestration.engine.described import Application
from trilith.orchestration.engine.process import ChildProcess
from trilith.orchestration.reconcile import Limits

ChildOrder = (
    orders.Deploy[Application]
    | orders.Publish
    | orders.Remove
    | orders.Stop
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
            case orders.Deploy():
                described = order.revision.content.described
                self.to_gateway(
                    control.Deploy(
                        description=described.description,
                        revision=order.revision.number,
                        model_roots=described.model_roots,
                        publish=order.publish,
                    )
                )
            case orders.Publish():
                self.to_gateway(control.Publish(revision=order.revision))
            case orders.Remove():
                self.to_gateway(control.RemoveReplica(replica_id=order.replica_id))
            case orders.Stop():
                if order.replica_id in self.workers:
                    self.workers[order.replica_id].channel.send(control.Stop(timeout_s=self._limits.stop_s))
            case orders.KillReplica():
                if order.replica_id in self.workers:
                    self.workers[order.replica_id].kill()
            case orders.KillGateway():
                self._kill_gateway()
            case orders.KillAll():
                for worker in self.workers.values():
                    worker.kill()
                self._kill_gateway()

    def _kill_gateway(self) -> None:
        if self.gateway is not None:
            self.gateway.kill()

    async def end(self, starting: Container[int]) -> None:
        """Ends all, in order; what has not ended in its time is killed.

        Args:
            starting: the replicas that hold no request, and may be in the middle of a long import: killed at once.
        """
        gateway = self.gateway
        if gateway is not None and gateway.alive:
            gateway.channel.send(control.Stop(timeout_s=self._limits.drain_s))
            await gateway.end_within(self._limits.drain_s + self._limits.stop_s)
        workers = dict(self.workers)
        for replica_id, worker in workers.items():
            worker.channel.send(control.Stop(timeout_s=self._limits.stop_s))
            if replica_id in starting:
                worker.kill()
        await asyncio.gather(*(worker.end_within(self._limits.stop_s + 1.0) for worker in workers.values()))

"""What stands before the fronts of a gateway, outermost first: pages of other origins, then access.

Rule: what is not asked for is not there. Without options a request meets no door.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilith.net.grpc import Admit
from trilith.net.http1 import AnswerHeaders, HttpApp
from trilith.orchestration.access import AccessDesk
from trilith.orchestration.engine.access_door import GrpcDoor, HttpDoor
from trilith.orchestration.engine.cors_door import CorsDoor
from trilith.orchestration.engine.front import HttpFront
from trilith.orchestration.engine.grpc_front import GrpcFront
from trilith.orchestration.engine.launch import GatewayArguments


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontDoors:
    """For the servers.

    Attributes:
        app: what HTTP requests meet first.
        answer_headers: what every answer over HTTP says, or None.
        admit: what is asked with the head of each call over gRPC, or None.
    """

    app: HttpApp
    answer_headers: AnswerHeaders | None
    admit: Admit | None


def front_doors(
    arguments: GatewayArguments, front: HttpFront, grpc_front: GrpcFront, desk: AccessDesk | None
) -> FrontDoors:
    """The doors that a gateway is to have. `desk`: of the keys; None where nobody needs one."""
    app: HttpApp = front
    admit: Admit | None = None
    if desk is not None or arguments.tls_client_ca is not None:
        app = HttpDoor(app, desk, front.method_at)
        admit = GrpcDoor(desk, grpc_front.method_at).admit
    if arguments.cors is None:
        return FrontDoors(app=app, answer_headers=None, admit=admit)
    door = CorsDoor(app, arguments.cors)
    return FrontDoors(app=door, answer_headers=door.headers, admit=admit)

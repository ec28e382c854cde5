"""What stands before the fronts of a gateway, outermost first: pages of other origins, then access.

Rule: what is not asked for is not there. Without options a request meets no door.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trilith.net.grpc import Admit, GrpcApp
from trilith.net.http1 import AnswerHeaders, HttpApp
from trilith.orchestration.access import AccessDesk
from trilith.orchestration.engine.access_door import GrpcDoor, HttpDoor
from trilith.orchestration.engine.access_hook import AccessHook
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
        asking: makes of the application that answers calls over gRPC the one that they meet first.
    """

    app: HttpApp
    answer_headers: AnswerHeaders | None
    admit: Admit | None
    asking: Callable[[GrpcApp], GrpcApp]


def front_doors(
    arguments: GatewayArguments,
    front: HttpFront,
    grpc_front: GrpcFront,
    *,
    desk: AccessDesk | None,
    hook: AccessHook | None,
) -> FrontDoors:
    """The doors that a gateway is to have.

    Args:
        arguments: the gateway's.
        front, grpc_front: what stands behind them.
        desk: of the keys; None where nobody needs one.
        hook: is asked about who has none; None where nobody is.
    """
    app: HttpApp = front
    grpc_door = GrpcDoor(desk, hook, grpc_front.method_at)
    any_door = desk is not None or hook is not None or arguments.tls_client_ca is not None
    if any_door:
        app = HttpDoor(app, desk, hook, front.method_at)
    cors = None if arguments.cors is None else CorsDoor(app, arguments.cors)
    return FrontDoors(
        app=app if cors is None else cors,
        answer_headers=None if cors is None else cors.headers,
        admit=grpc_door.admit if any_door else None,
        asking=grpc_door.asking,
    )

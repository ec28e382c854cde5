"""gRPC over our own HTTP/2: a server for calls of all four kinds.

`GrpcServer(app)` calls `app(call)` for each call; `GrpcCall` has the messages and takes the answers.
"""

from trilith.net.grpc.call import GrpcCall
from trilith.net.grpc.health import HealthService
from trilith.net.grpc.limits import GrpcLimits
from trilith.net.grpc.reflection import ReflectionService
from trilith.net.grpc.server import GrpcServer
from trilith.net.grpc.services import GrpcService, GrpcServices
from trilith.net.grpc.state import Admit, Answer, GrpcApp
from trilith.net.grpc.statistics import GrpcStatistics
from trilith.wire.grpc_compression import GrpcCompression
from trilith.wire.grpc_metadata import metadata_field

__all__ = [
    "Admit",
    "Answer",
    "GrpcApp",
    "GrpcCall",
    "GrpcCompression",
    "GrpcLimits",
    "GrpcServer",
    "GrpcService",
    "GrpcServices",
    "GrpcStatistics",
    "HealthService",
    "ReflectionService",
    "metadata_field",
]

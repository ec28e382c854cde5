"""gRPC over our own HTTP/2: a server for unary calls.

`GrpcServer(app)` calls `app(call)` for each complete call; `GrpcCall` has the message and takes the answer.
"""

from trilith.net.grpc.call import GrpcCall
from trilith.net.grpc.limits import GrpcLimits
from trilith.net.grpc.server import GrpcServer
from trilith.net.grpc.state import GrpcApp
from trilith.net.grpc.statistics import GrpcStatistics

__all__ = ["GrpcApp", "GrpcCall", "GrpcLimits", "GrpcServer", "GrpcStatistics"]

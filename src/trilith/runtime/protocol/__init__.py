"""The runtime's public protocol: the Open Inference Protocol over HTTP and gRPC, and what models count.

`OipHttp(runtime)` is an application for `trilith.net.http1.HttpServer`: it answers the paths under `/v2`.
`OipGrpc(runtime)` is one for `trilith.net.grpc.GrpcServer`; `OipServices` puts health and reflection beside it.
`model_at(path)` says which model a path asks.
"""

from trilith.runtime.protocol.grpc import OipGrpc
from trilith.runtime.protocol.grpc_services import OipServices
from trilith.runtime.protocol.http import OipHttp
from trilith.runtime.protocol.metrics import model_source
from trilith.runtime.protocol.routes import model_at

__all__ = ["OipGrpc", "OipHttp", "OipServices", "model_at", "model_source"]

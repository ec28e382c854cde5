"""The runtime's public protocol: the Open Inference Protocol over HTTP and gRPC, and what models count.

`OipHttp(runtime)` is an application for `trilith.net.http1.HttpServer`: it answers the paths under `/v2`.
`OipGrpc(runtime)` is one for `trilith.net.grpc.GrpcServer`; `OipServices` puts health and reflection beside it.
"""

from trilith.runtime.protocol.grpc import OipGrpc
from trilith.runtime.protocol.grpc_services import OipServices
from trilith.runtime.protocol.http import OipHttp
from trilith.runtime.protocol.metrics import model_source

__all__ = ["OipGrpc", "OipHttp", "OipServices", "model_source"]

"""The runtime's public protocol: the Open Inference Protocol over HTTP and gRPC, and its metrics.

`OipHttp(runtime)` is an application for `trilith.net.http1.HttpServer`, `OipGrpc(runtime)` one for
`trilith.net.grpc.GrpcServer`; a process that serves more routes asks `match(path)` first.
"""

from trilith.runtime.protocol.grpc import OipGrpc
from trilith.runtime.protocol.http import OipHttp
from trilith.runtime.protocol.metrics import MetricsHttp, model_source

__all__ = ["MetricsHttp", "OipGrpc", "OipHttp", "model_source"]

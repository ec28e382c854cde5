"""Several services behind one application: those that gRPC itself defines, beside the program's own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from trilith.net.grpc.call import GrpcCall
from trilith.net.grpc.state import Answer, GrpcApp


class GrpcService(Protocol):
    """A service that knows its methods."""

    @property
    def methods(self) -> Mapping[bytes, GrpcApp]:
        """What answers, by path."""
        ...

    @property
    def streaming(self) -> Collection[bytes]:
        """Paths of the methods whose clients may send several messages."""
        ...


class GrpcServices:
    """A `GrpcApp` that hands calls to services, and all others to an application.

    Args:
        app: answers every path that no service has.
        services: what is served beside it.
        streaming: paths of `app` whose clients may send several messages.
    """

    def __init__(self, app: GrpcApp, *services: GrpcService, streaming: Collection[bytes] = ()) -> None:
        self._app = app
        self._methods = {path: method for service in services for path, method in service.methods.items()}
        self._own: frozenset[bytes] = frozenset().union(*(service.streaming for service in services))
        self.streaming: set[bytes] = {*streaming, *self._own}
        """For `GrpcServer`: this very set, whatever becomes of it."""

    def stream(self, paths: Collection[bytes]) -> None:
        """From now on these are the paths of the application whose clients may send several messages."""
        self.streaming.clear()
        self.streaming.update(paths, self._own)

    def __call__(self, call: GrpcCall) -> Answer:
        """Answers, or says what will."""
        method = self._methods.get(call.path)
        return self._app(call) if method is None else method(call)

"""Starts the agent's children, and holds the sockets that outlive them.

Rule: everything that a child needs at its start is here, on its command line or as an inherited descriptor.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import shutil
import socket
import time
from collections.abc import Container, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from trilith.config import settings_by_path
from trilith.core.machine_memory import memory_bytes
from trilith.errors import SetupError
from trilith.net.listen import listen_unix, shown
from trilith.orchestration.engine.inline import Foreground
from trilith.orchestration.engine.launch import GatewayArguments, WorkerArguments
from trilith.orchestration.engine.places import (
    SOCKET_NAME,
    ServerRecord,
    peers_folder,
    server_record,
    uploads_folder,
)
from trilith.orchestration.engine.ports import Ports
from trilith.orchestration.engine.process import ChildProcess
from trilith.orchestration.engine.reload import source_folder
from trilith.orchestration.engine.snapshot import take_snapshot
from trilith.orchestration.engine.spares import Spares
from trilith.orchestration.spec import ServeOptions

_GATEWAY_MODULE = "trilith.orchestration.engine.gateway"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
_LOADS = "loads"
_SNAPSHOT_SUFFIX = ".sources"
_WORKER_MODULE = "trilith.orchestration.engine.worker"


def _default_held_bytes(max_body_bytes: int) -> int:
    """A quarter of the memory, and four of the longest requests at least."""
    return max(memory_bytes() // 4, 4 * max_body_bytes)


class Launcher:
    """The listening sockets of one server, and how its processes are started. Enter it before use.

    Attributes:
        sources: the folder of the application's Python files, as it was found at the start: it may go.
        serves_repository: the target is a folder of models; otherwise it is a service.
    """

    def __init__(self, options: ServeOptions, *, foreground: Foreground | None = None) -> None:
        """`foreground`: replicas run in this process."""
        self._options = options
        self._foreground = foreground
        self._spares = Spares(options.target, options.log)
        self._undo = contextlib.ExitStack()
        self._folder = str(Path.cwd())  # it may have another name later, or none
        self.sources = source_folder(options.target)
        self.serves_repository = "://" in options.target or Path(options.target).is_dir()

    def __enter__(self) -> Self:
        """Binds the sockets, and leaves word of the server for `trilith status`.

        Raises:
            PortInUse: a port is taken.
            SetupError: an address cannot be used.
        """
        with contextlib.ExitStack() as undo:
            options = self._options
            ports = Ports(options.host)
            self._http = ports.listen(undo, options.http_port, "--http-port")
            self._grpc = ports.listen(undo, options.grpc_port, "--grpc-port")
            self._metrics = ports.listen(undo, options.metrics_port, "--metrics-port")
            ports.check()
            folder = undo.enter_context(peers_folder())
            self._uploads = undo.enter_context(uploads_folder())
            self._peers_path = folder / SOCKET_NAME
            self._peers = undo.enter_context(listen_unix(self._peers_path))
            record = ServerRecord(
                pid=os.getpid(),
                target=options.target,
                started_at=time.time(),
                http=self.http_address,
                grpc=self.grpc_address,
                metrics=self.metrics_address,
                tls=bool(options.tls_certificate),
                folder=self._folder,
                options=options.copy_options,
                settings=settings_by_path(options.settings),
            )
            self._say_target = undo.enter_context(server_record(record))
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    @property
    def http_address(self) -> str:
        """`host:port` of HTTP, as it was really bound."""
        return shown(self._http)

    @property
    def grpc_address(self) -> str:
        """`host:port` of gRPC; "" when there is none."""
        return shown(self._grpc) if self._grpc else ""

    @property
    def metrics_address(self) -> str:
        """`host:port` of metrics and status; "" when there is none."""
        return shown(self._metrics) if self._metrics else ""

    def stop_listening(self) -> None:
        """Lets go of the ports, so that a connection made while the server stops is refused, not held and then cut."""
        for listener in (*self._http, *self._grpc):
            listener.close()

    async def start_gateway(self, *, quiet_start: bool) -> ChildProcess:
        """Starts a gateway on the sockets. `quiet_start`: it does not log each model that it loads at the start."""
        options = self._options
        arguments = GatewayArguments(
            http_fds=_numbers(self._http),
            grpc_fds=_numbers(self._grpc),
            metrics_fds=_numbers(self._metrics),
            peers_fd=self._peers.fileno(),
            repositories=[options.target, *options.repository.roots] if self.serves_repository else [],
            max_body_bytes=options.max_body_bytes,
            max_held_bytes=options.max_held_bytes or _default_held_bytes(options.max_body_bytes),
            unresponsive_s=options.unresponsive_s,
            stream_keep_alive_s=options.stream_keep_alive_s,
            tls_certificate=options.tls_certificate,
            tls_key=options.tls_key,
            tls_client_ca=options.tls_client_ca,
            asks_access=bool(options.access),
            access_cache_s=options.access_cache_s,
            has_keys=options.api_keys is not None,
            cors=options.cors,
            protocol=options.protocol,
            repository=msgspec.structs.replace(options.repository, model_settings=options.settings.models),
            loads=str(self._uploads / _LOADS),
            log=options.log,
            quiet_start=quiet_start,
            traces=options.traces,
        )
        return await ChildProcess.start(
            _GATEWAY_MODULE,
            options.target,
            msgspec.json.encode(arguments).decode(),
            pass_fds=_numbers([*self._http, *self._grpc, *self._metrics, self._peers]),
            environment=dict(os.environ),
        )

    async def keep_sources(self, revision: int, needed: Container[int]) -> None:
        """Keeps the source of a revision that begins, when sources may change; drops those that are not `needed`.

        Raises:
            SetupError: they cannot be kept.
        """
        if not self._options.reload:
            return
        try:
            for old in self._peers_path.parent.glob(f"*{_SNAPSHOT_SUFFIX}"):
                if int(old.stem) not in needed:
                    old.unlink(missing_ok=True)
            await asyncio.to_thread(take_snapshot, self.sources, self._snapshot(revision))
        except (OSError, RuntimeError) as error:  # the second is Python's, for a thread that cannot be started
            raise SetupError(f"the sources of a change cannot be kept for --reload: {error}") from error

    def _snapshot(self, revision: int) -> Path:
        return self._peers_path.with_name(f"{revision}{_SNAPSHOT_SUFFIX}")

    async def start_worker(
        self, service: str, *, replica_id: int, revision: int, cpu: float | None = None
    ) -> ChildProcess:
        """Starts a replica of a service; "" starts the seed of a revision, which tells what its services are.

        `cpu` bounds the threads of native libraries; what the user set in the environment stays.
        """
        options = self._options
        arguments = WorkerArguments(
            stream_keep_alive_s=self._options.stream_keep_alive_s,
            target=options.target,
            folder=self._folder,
            service=service,
            replica_id=replica_id,
            revision=revision,
            peers_path=str(self._peers_path),
            model_roots=list(options.model_roots),
            uploads=str(self._uploads_of(replica_id)),
            debug=options.debug,
            log=options.log,
            data_log=options.data_log,
            access=options.access,
            snapshot=str(self._snapshot(revision)) if options.reload else "",
            settings=options.settings,
        )
        if self._foreground is not None:
            return await self._foreground.start(arguments)
        spare = self._spares.take(_thread_bounds(cpu), arguments)
        if spare is not None:
            return spare
        return await ChildProcess.start(
            _WORKER_MODULE,
            f"{service or options.target} replica {replica_id}",
            msgspec.json.encode(arguments).decode(),
            environment=_thread_bounds(cpu) | os.environ,
        )

    async def keep_spares(self, bounds: Sequence[float | None], libraries: list[str]) -> None:
        """Has processes for replicas of the next change, which have imported `libraries`.

        `bounds`: of the cores of each, for the seed first.
        """
        if self._options.reload:
            await self._spares.keep([_thread_bounds(each) for each in bounds], libraries)

    async def end_spares(self) -> None:
        """Ends those that wait."""
        await self._spares.end()

    def described(self, service: str) -> None:
        """What the target is: of a file that was named alone its one service, by which calls find the server."""
        target = self._options.target
        if target.endswith(".py"):
            self._say_target(f"{target}:{service}")

    def worker_ended(self, replica_id: int) -> None:
        """Removes what a replica that has exited left behind."""
        shutil.rmtree(self._uploads_of(replica_id), ignore_errors=True)

    def _uploads_of(self, replica_id: int) -> Path:
        return self._uploads / str(replica_id)


def _thread_bounds(cpu: float | None) -> dict[str, str]:
    return {} if cpu is None else dict.fromkeys(_THREAD_VARIABLES, str(math.ceil(cpu)))


def _numbers(listening: Sequence[socket.socket]) -> list[int]:
    return [each.fileno() for each in listening]

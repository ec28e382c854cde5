"""Runs the exchanges of a replica's mounted applications.

Rule 1: an exchange holds its place until the answer has ended. What an application does after that (a background task)
    goes on without one, and is waited for when the replica stops. Once as many go on as the replica takes calls, the
    next requests to the application wait, in their places.
Rule 2: when the client goes its application is told: what it awaits of the exchange ends. What still runs a moment
    later is cancelled, and holds its place until it has ended.
Rule 3: what it raised is logged with its traceback. Before its answer has begun it is 500, after that it is cut.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from trilith.core.foreign import named_error
from trilith.core.forks import end_if_forked
from trilith.errors import Cancelled, DeadlineExceeded, InvalidInput
from trilith.service.call import ServiceCall
from trilith.service.failure import explain
from trilith.service.mounts.app_threads import AppThreads
from trilith.service.mounts.current import current_instance
from trilith.service.mounts.exchange import Exchange, Phase
from trilith.service.mounts.inner_call import Handle
from trilith.service.mounts.joined_calls import HandleBatch, JoinedCalls
from trilith.service.mounts.method_app import MethodApp
from trilith.service.mounts.open_mount import OpenMount
from trilith.service.mounts.port import MountPlace
from trilith.service.mounts.socket import SocketExchange
from trilith.service.mounts.stack import MountedStack, ServiceApp
from trilith.service.spec import ServiceSpec
from trilith.service.streams.call import StreamServiceCall
from trilith.service.tracing import enter
from trilith.service.user_errors import USER_ERRORS, from_outside
from trilith.wire.exchange import ALL, EXCHANGE_CONTENT_TYPE, unpack_head

_log: Final = logging.getLogger("trilith.service")
_GRACE_S: Final = 1.0
_LEAST_S: Final = 0.1


class MountExecution:
    """The mounts of one replica.

    Args:
        over: called when the work on a call has ended, or its answer.
        in_thread: runs functions in threads of the replica.
        debug: whether clients may see what an application raised.
        keep_alive_s: streams of events of methods behind middleware get a comment when silent for so long; 0 for never.
    """

    def __init__(
        self,
        over: Callable[[ServiceCall], None],
        in_thread: Callable[..., Awaitable[Any]],
        *,
        debug: bool,
        keep_alive_s: float,
    ) -> None:
        self._keep_alive_s = keep_alive_s
        self._over = over
        self._in_thread = in_thread
        self._debug = debug
        self._open: dict[str, OpenMount] = {}
        self._threads: AppThreads | None = None
        self._instance: Any = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(
        self, spec: ServiceSpec, instance: Any, handle: Handle, handle_batch: HandleBatch, *, least_timeout_s: float
    ) -> None:
        """Makes the applications and starts them, in the order of their declaration; then the middleware.

        Args:
            spec: of the service.
            instance: of it.
            handle: runs calls of its methods.
            handle_batch: runs calls of a batched method together.
            least_timeout_s: they all have so much time though they declare less.

        Raises:
            SetupError: one of them cannot be. Those before it are stopped.
        """
        self._instance = instance
        token = current_instance.set(instance)
        threads = self._threads = AppThreads(spec.options.threads, spec.concurrency, spec.name)
        try:
            for mount in spec.mounts.values():
                place = MountPlace(
                    path=mount.path, where=mount.where, instance=instance, in_thread=self._in_thread, threads=threads
                )
                app = await mount.open(place)
                await app.start()
                limit_s = max(mount.timeout_s, least_timeout_s)
                self._open[mount.path] = OpenMount(mount.where, app, _always(limit_s), spec.concurrency)
            if spec.options.middleware:
                self._open[ALL] = await self._stacked(spec, handle, handle_batch, least_timeout_s)
        except BaseException:
            await self.close(_GRACE_S)
            raise
        finally:
            current_instance.reset(token)

    async def _stacked(
        self, spec: ServiceSpec, handle: Handle, handle_batch: HandleBatch, least_timeout_s: float
    ) -> OpenMount:
        methods = {path: method for method in spec.methods.values() for path in method.routes}
        apps = {path: mount.app for path, mount in self._open.items()}
        where = f"{spec.name}: its middleware"
        handles = {
            method.name: handle if method.options.batch is None else JoinedCalls(method, handle_batch).handle
            for method in spec.methods.values()
        }
        made = {
            path: MethodApp(method, handles[method.name], keep_alive_s=self._keep_alive_s)
            for path, method in methods.items()
        }
        inner = ServiceApp(spec.name, made, apps)
        stack = MountedStack(spec.options.middleware, inner, where)
        await stack.start()

        limits = sorted(((mount.path.rstrip("/"), mount.timeout_s) for mount in spec.mounts.values()), reverse=True)

        def timeout_s(path: str) -> float:
            method = methods.get(path)
            if method is not None:
                return max(method.timeout_s, least_timeout_s)
            below = (limit_s for root, limit_s in limits if path == root or path.startswith(f"{root}/"))
            return max(next(below, spec.options.timeout_s), least_timeout_s)

        return OpenMount(where, stack, timeout_s, spec.concurrency)

    async def close(self, timeout_s: float) -> None:
        """Waits for what goes on after its answer, ends it, then stops the applications, the last one first.

        `timeout_s`: for all of it. Half is for what goes on, and the applications share what is left in equal parts.
        """
        ends_at = time.monotonic() + timeout_s
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s / 2)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=min(_GRACE_S, timeout_s / 2))
        while self._open:
            share_s = max(_LEAST_S, (ends_at - time.monotonic()) / len(self._open))
            _, mount = self._open.popitem()
            await mount.app.stop(share_s)
        if self._threads is not None:
            self._threads.close()

    def why_not(self) -> str:
        """Why one of them does not work any more; "" while all do."""
        return "; ".join(mount.app.why_not for mount in self._open.values() if mount.app.why_not)

    def find(self, call: ServiceCall) -> OpenMount | None:
        """The mount that a call is for; None: it is for none."""
        return self._open.get(call.meta.method) if call.meta.content_type == EXCHANGE_CONTENT_TYPE else None

    def begin(self, mount: OpenMount, call: StreamServiceCall) -> tuple[asyncio.Task[None], float]:
        """Answers an exchange, in a task; that, and the time limit to the beginning of its answer."""
        head = unpack_head(call.buffers[0])
        kind = SocketExchange if head.websocket else Exchange
        exchange = kind(call, head, call.buffers[1] if len(call.buffers) > 1 else b"")
        task = asyncio.get_running_loop().create_task(self._run(mount, call, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def leave(_: ServiceCall) -> None:
            exchange.leave()
            if mount.app.cancellable:
                asyncio.get_running_loop().call_later(_GRACE_S, task.cancel)
            elif call in mount.waiting:
                task.cancel()

        call.abort = leave
        return task, mount.timeout_s(head.raw_path.decode("latin-1"))

    def overdue(self, mount: OpenMount, call: StreamServiceCall) -> DeadlineExceeded:
        """Why the time of a call is over."""
        whole = call.context.deadline
        if call.awaits_caller or (whole is not None and time.monotonic() >= whole):
            return call.overdue(mount.where)
        return DeadlineExceeded(
            f"{mount.where} did not begin to answer within {call.limit_s:g} s. The limit is timeout_s of trilith.mount,"
            " @trilith.api or @trilith.service"
        )

    async def _run(self, mount: OpenMount, call: StreamServiceCall, exchange: Exchange) -> None:
        enter(call.context, call.meta.trace)
        current_instance.set(self._instance)
        exchange.on_finish = mount.answered
        try:
            if mount.is_full:
                await mount.wait_for_room(call)
            await mount.app.answer(exchange)
            end_if_forked()
            await exchange.returned(mount.where)
        except asyncio.CancelledError as error:
            if call.done or from_outside():
                call.finish(Cancelled(f"{mount.where} was cancelled"))
            else:
                self._failed(mount, call, exchange, error)  # it let a cancellation of its own escape
        except USER_ERRORS as error:
            self._failed(mount, call, exchange, error)
        finally:
            if exchange.phase is Phase.FINISHED:
                mount.ended()
            self._over(call)

    def _failed(self, mount: OpenMount, call: StreamServiceCall, exchange: Exchange, error: BaseException) -> None:
        end_if_forked()
        request_id = call.context.request_id
        if exchange.left:
            _log.info("%s raised %s when its client had gone (request %s)", mount.where, named_error(error), request_id)
            call.finish(Cancelled(f"the client of {mount.where} has gone"))
            return
        call.finish(explain(error, mount.where, request_id, debug=self._debug))


def _always(limit_s: float) -> Callable[[str], float]:
    return lambda _: limit_s


def check_exchange(call: ServiceCall) -> StreamServiceCall:
    """The call of an exchange.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(call, StreamServiceCall) or not call.buffers:
        raise InvalidInput(f"a call of {call.meta.method} is no exchange")
    return call

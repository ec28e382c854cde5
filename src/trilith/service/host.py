"""Runs the methods of one service in a worker process. It knows no socket: a call comes as bytes and leaves as bytes.

    host = ServiceHost(service, resolver, debug=False)      service: the decorated class or function, or its spec
    await host.start()                                      builds and enters the instance, prepares codecs and models
    host.handle(ServiceCall(meta, buffers, context, on_done))
    host.handle_batch([ServiceCall, ...])                   calls of ONE batched method, executed together
    call.cancel()                                           the caller went away
    host.in_flight; await host.stop()

    on_done(outcome: ResultMeta | TrilithError, buffers)    called once, on the loop

Rule 1: `handle` returns at once and never raises for what a caller or a method did: every call is answered, once.
Rule 2: a synchronous method runs in a thread. Its slot is held until the thread ends, given up or not.
Rule 3: an item that cannot be decoded fails alone; its batch runs without it.
Rule 4: what a method raised is logged with its traceback (`failure.py`).

An asynchronous method always runs in a task of its own: `asyncio.timeout` and `TaskGroup` need one, and it costs one or
two microseconds.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from trilith.core.clock import timer_delay_s
from trilith.core.context import current_context
from trilith.core.foreign import named_error
from trilith.core.forks import end_if_forked
from trilith.core.timeline import DECODED, STARTED
from trilith.errors import Cancelled, DeadlineExceeded, Draining, SetupError, TrilithError, Unsupported
from trilith.service.batch_execution import BatchExecution
from trilith.service.call import OnDone, Outcome, ServiceCall
from trilith.service.codecs.request import Arguments
from trilith.service.command.declared import RUNNING_ATTRIBUTE, URL_ATTRIBUTE
from trilith.service.command.options import Command
from trilith.service.command.running import RunningCommand, arguments_of
from trilith.service.crowding import Crowding
from trilith.service.depends import Wiring
from trilith.service.execution import Answer, HostedMethod, ShortWay, answer_meta
from trilith.service.failure import explain
from trilith.service.lifecycle import enter as enter_instance
from trilith.service.lifecycle import leave as leave_instance
from trilith.service.local import bound_method, build
from trilith.service.mounts.execution import MountExecution, check_exchange
from trilith.service.mounts.open_mount import OpenMount
from trilith.service.ports import Resolver
from trilith.service.proxy import ModelProxy
from trilith.service.spec import ServiceSpec, no_method, spec_of
from trilith.service.streams.call import StreamServiceCall
from trilith.service.streams.execution import StreamExecution
from trilith.service.tracing import enter
from trilith.service.user_errors import USER_ERRORS, from_outside

__all__ = ["OnDone", "Outcome", "ServiceCall", "ServiceHost"]

_now: Final = time.monotonic
_ON_THE_WAY_S: Final = 0.1  # a call that comes late by less has had its whole time
_CALLS_END_S: Final = 1.0

Result = TypeVar("Result")


class ServiceHost:
    """Hosts one instance of one service. All its methods are called on the loop that started it."""

    def __init__(
        self,
        service: object,
        resolver: Resolver,
        *,
        debug: bool = False,
        uploads: Path | None = None,
        least_timeout_s: float = 0.0,
        stream_keep_alive_s: float = 0.0,
    ) -> None:
        """Takes the service and what its references mean; `uploads` is where files of callers are kept meanwhile.

        `least_timeout_s`: methods get so much time though they declare less, for who stands at a breakpoint.
        `stream_keep_alive_s`: streams of events behind middleware get a comment when silent for so long; 0 for never.
        """
        self.spec = service if isinstance(service, ServiceSpec) else spec_of(service)
        self.instance: Any = None
        self.command: RunningCommand | None = None
        self._resolver = resolver
        self._debug = debug
        self._uploads = uploads
        self._least_timeout_s = least_timeout_s
        self._methods: dict[str, HostedMethod] = {}
        self._active: dict[ServiceCall, asyncio.Task[None]] = {}  # holds each task, as asyncio does not
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = math.inf
        self._stopped = False
        self._batches = BatchExecution(self._fail, self._in_thread)
        self._streams = StreamExecution(self, self._in_thread)
        self._mounts = MountExecution(self._end, self._in_thread, debug=debug, keep_alive_s=stream_keep_alive_s)
        self.crowding = Crowding(self._active, self._takes_thread)
        self._entered = False

    @property
    def in_flight(self) -> int:
        """Calls that hold a slot now."""
        return len(self._active)

    def method_of(self, task: asyncio.Task[Any]) -> str:
        """The method whose call a task works on, `Ocr.read`; "" for none. From any thread."""
        found = next((call.meta for call, its_task in list(self._active.items()) if its_task is task), None)
        return "" if found is None else f"{found.service}.{found.method}"

    def why_not(self) -> str:
        """Why a part of it does not work any more, as a sentence: a mount, or the middleware; "" while all do."""
        return self._mounts.why_not()

    async def start(self) -> None:
        """Builds the instance in a thread, then its codecs, dependencies, models and command; then enters it.

        Raises:
            InvalidConfig: a type cannot go over the wire.
            UnknownReference: a model is nowhere to be found.
            SetupError: the constructor raised, or its `__aenter__` or `__enter__`; its command did not get ready, or a
                mount cannot be served.
        """
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(self.spec.options.threads, thread_name_prefix=self.spec.name)
        await self._in_thread(self._build)
        for name in self.spec.models:
            proxy = getattr(self.instance, name)
            if isinstance(proxy, ModelProxy):  # the constructor may have put something else there
                await proxy.prepare()
        if self.spec.command is not None:
            await self._start_command(self.spec.command)
        await enter_instance(self.instance, self.spec.name, self._in_thread)
        self._entered = True
        if self.spec.mounts or self.spec.options.middleware:
            try:
                await self._mounts.open(
                    self.spec, self.instance, self.handle, self.handle_batch, least_timeout_s=self._least_timeout_s
                )
            except BaseException:
                await self.stop()  # the instance was entered, and is left
                raise

    async def _start_command(self, declared: Command) -> None:
        arguments = await self._in_thread(arguments_of, declared, self.instance, self.spec.name)
        command = self.command = RunningCommand(self.spec.name, declared, arguments)
        await command.start()
        setattr(self.instance, URL_ATTRIBUTE, command.url)
        setattr(self.instance, RUNNING_ATTRIBUTE, command)

    def _build(self) -> None:
        try:
            self.instance = build(self.spec, Wiring(self._resolver, self._loop))
        except TrilithError:
            raise
        except USER_ERRORS as error:
            raise SetupError(
                f"{self.spec.name} could not be built: its constructor raised {named_error(error)}"
            ) from error
        for name, method in self.spec.methods.items():
            hosted = HostedMethod(method, bound_method(self.instance, method), uploads=self._uploads)
            hosted.timeout_s = max(hosted.timeout_s, self._least_timeout_s)
            hosted.prepare()
            self._methods[name] = hosted
        for name in self.spec.dependencies:
            getattr(self.instance, name)

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Ends what still runs, closes the mounts, leaves the instance, lets the threads go: in this order.

        `timeout_s`: how long all of it may take, the end of its command included. What hangs is not waited for longer.
        """
        ends_at = _now() + timeout_s
        await self.end_calls(timeout_s / 4)
        self.crowding.close()
        if self._sweep is not None:
            self._sweep.cancel()
        await self._mounts.close(max(0.0, ends_at - _now()) / 2)
        if self._entered:
            self._entered = False
            left_s = max(0.0, round(ends_at - _now(), 3))  # for a person, too
            await leave_instance(self.instance, self.spec.name, timeout_s=left_s)
        if self.command is not None:
            await self.command.stop(max(0.0, ends_at - _now()))
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def end_calls(self, timeout_s: float) -> None:
        """Takes no more calls, and ends those that run: answered with `Draining`, tasks cancelled, generators closed.

        Args:
            timeout_s: seconds to wait for their ends, once; one is the most, for threads that hang.
        """
        for call in list(self._active):
            call.cancel(Draining(f"{self.spec.name} is stopping: the call was ended before it was answered"))
        tasks = () if self._stopped else set(self._active.values())
        self._stopped = True
        if tasks:
            await asyncio.wait(tasks, timeout=min(timeout_s, _CALLS_END_S))

    def handle(self, call: ServiceCall) -> None:
        """Runs one call. A call of a batched method is a batch of one."""
        hosted = self._methods.get(call.meta.method)
        if hosted is None or self._stopped:
            mount = self._mounts.find(call)
            if mount is None or self._stopped:
                call.finish(self._refuse(call))
            else:
                self._handle_exchange(check_exchange(call), mount)
            return
        if not hosted.ordinary:
            self._handle_other(call, hosted)
            return
        self._begin(call, hosted)
        if hosted.asynchronous:
            short = hosted.short_way(call)
            run = self._run_asynchronous(hosted, call) if short is None else self._run_shortly(hosted, call, short)
            task = self._loop.create_task(run)
            call.abort = self._abort_one
        else:
            task = self._loop.create_task(self._run_synchronous(hosted, call))
        self._active[call] = task

    def _handle_other(self, call: ServiceCall, hosted: HostedMethod) -> None:
        """One call of a batched or streaming method."""
        if hosted.batched:
            self.handle_batch([call])
            return
        if not isinstance(call, StreamServiceCall):
            call.finish(Unsupported(f"{hosted.where} is a stream, and was called for one answer"))
            return
        self._begin_stream(call, hosted.timeout_s)
        run = self._streams.on_loop if hosted.asynchronous else self._streams.in_thread
        task = self._loop.create_task(run(hosted, call))
        if hosted.asynchronous:
            call.abort = self._abort_one
        self._active[call] = task

    def _handle_exchange(self, call: StreamServiceCall, mount: OpenMount) -> None:
        """One request to a mount."""
        task, timeout_s = self._mounts.begin(mount, call)
        self._begin_stream(call, timeout_s)
        self._active[call] = task

    def _begin_stream(self, call: StreamServiceCall, timeout_s: float) -> None:
        now = _now()
        call.working = True
        call.context.temporary_files = self._uploads
        call.context.timeline.stamps.append((STARTED, now))
        call.limit_s, call.waits_since = timeout_s, now
        self.crowding.watch()
        due_at = call.due_at(now)
        if due_at is not None and due_at < self._sweep_at:
            self._sweep_later(due_at, now)

    def handle_batch(self, calls: Sequence[ServiceCall]) -> None:
        """Runs calls of one batched method together. Each is answered by itself."""
        hosted = self._methods.get(calls[0].meta.method)
        if hosted is None or self._stopped:
            for call in calls:
                call.finish(self._refuse(call))
            return
        for call in calls:
            self._begin(call, hosted)
        task = self._loop.create_task(self._run_batch(hosted, calls))
        asynchronous = hosted.asynchronous

        def abort(_: ServiceCall) -> None:
            if asynchronous and all(call.done for call in calls):
                self._abort(task, calls)

        for call in calls:
            call.abort = abort
            self._active[call] = task

    def _abort_one(self, call: ServiceCall) -> None:
        self._abort(self._active[call], (call,))

    def _abort(self, task: asyncio.Task[None], calls: Sequence[ServiceCall]) -> None:
        """Cancels the task of calls that nobody waits for any more."""
        task.cancel()
        # A task that is cancelled before its first step never runs, nor its `finally`: the end is seen to from here.
        task.add_done_callback(lambda _: self._end_all(calls))

    def _end_all(self, calls: Sequence[ServiceCall]) -> None:
        for call in calls:
            if call.working:
                self._end(call)

    def _refuse(self, call: ServiceCall) -> TrilithError:
        if self._stopped:
            return Draining(f"{self.spec.name} is stopping")
        return no_method(self.spec, call.meta.method)

    def _begin(self, call: ServiceCall, hosted: HostedMethod) -> None:
        now = _now()
        call.working = True
        context = call.context
        context.temporary_files = self._uploads
        context.timeline.stamps.append((STARTED, now))
        latest = now + hosted.timeout_s
        deadline = context.deadline
        if deadline is None or deadline > latest:
            deadline = context.deadline = latest
        if deadline < self._sweep_at:
            self._sweep_later(deadline, now)

    def _sweep_later(self, instant: float, now: float) -> None:
        # One timer for all calls, at the earliest deadline: a timer a call would cost more than decoding it.
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep_at = instant
        self._sweep = self._loop.call_later(timer_delay_s(instant, now), self._expire)

    def _expire(self) -> None:
        now, earliest = _now(), math.inf
        self._sweep, self._sweep_at = None, math.inf
        for call in list(self._active):
            due_at = call.due_at(now)
            if call.done or due_at is None:
                continue
            if due_at <= now:
                call.cancel(self._overdue(call))
            else:
                earliest = min(earliest, due_at)
        if earliest < math.inf:
            self._sweep_later(earliest, now)

    def _takes_thread(self, call: ServiceCall) -> bool:
        hosted = self._methods.get(call.meta.method)
        return hosted is not None and not hosted.asynchronous

    def _overdue(self, call: ServiceCall) -> DeadlineExceeded:
        mount = self._mounts.find(call)
        if mount is not None and isinstance(call, StreamServiceCall):
            return self._mounts.overdue(mount, call)
        return _overdue(self._methods[call.meta.method], call)

    def _end(self, call: ServiceCall) -> None:
        end_if_forked()
        self._active.pop(call, None)
        call.abort = None
        call.working = False
        if call.on_end is not None:
            call.on_end()
            call.on_end = None  # it may hold the call: no cycle is left behind
        if call.folder is not None:
            call.folder.remove()
        if call.context.folder is not None:
            # Not here: the method may have put much into it. A replica's end takes along what is not removed by then.
            self._loop.run_in_executor(None, call.context.folder.remove)

    def _fail(self, call: ServiceCall, hosted: HostedMethod, error: BaseException, *, logged: bool = False) -> None:
        end_if_forked()
        request_id = call.context.request_id
        call.finish(explain(error, hosted.where, request_id, debug=self._debug, logged=logged))

    def failed(self, call: ServiceCall, hosted: HostedMethod, error: BaseException) -> None:
        """For `StreamExecution`."""
        self._fail(call, hosted, error)

    def cancelled(self, call: ServiceCall, hosted: HostedMethod, error: asyncio.CancelledError) -> None:
        """For `StreamExecution`."""
        self._cancelled((call,), hosted, error)

    def over(self, call: ServiceCall) -> None:
        """For `StreamExecution`."""
        self._end(call)

    async def _in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        context = contextvars.copy_context()

        def run() -> Result:
            try:
                return context.run(function, *arguments)
            finally:
                end_if_forked()

        return await self._loop.run_in_executor(self._executor, run)

    async def _run_shortly(self, hosted: HostedMethod, call: ServiceCall, way: ShortWay) -> None:
        """`_run_asynchronous` for the most common calls: quick codecs, and nobody asks for the timeline.

        The same steps in one frame, without what such a call never needs: threads, a choice of encodings, a folder of
        uploads, stamps that nobody can read any more. It halves what the host costs.
        """
        current_context.set(call.context)
        try:
            arguments = way.decode(call.buffers[0])
            call.context.timeline.stamps.append((DECODED, _now()))
            value = await hosted.function(*arguments.args, **arguments.kwargs)
            end_if_forked()
            body = way.encode(value)
            result = way.result
            if call.context.answer is not None:
                result = answer_meta(result.content_type, call.context, trace=False)
            call.finish(result, (body,))
        except asyncio.CancelledError as error:
            self._cancelled((call,), hosted, error)
        except USER_ERRORS as error:
            self._fail(call, hosted, error)
        finally:
            self._end(call)

    async def _run_asynchronous(self, hosted: HostedMethod, call: ServiceCall) -> None:
        enter(call.context, call.meta.trace)
        try:
            arguments = await self._in_thread(hosted.decode, call) if hosted.heavy_body(call) else hosted.decode(call)
            value = await hosted.function(*arguments.args, **arguments.kwargs)
            end_if_forked()
            hosted.ran((call,))
            if hosted.heavy_result(value):
                meta, buffers = await self._in_thread(hosted.encode, call, value)
            else:
                meta, buffers = hosted.encode(call, value)
            call.finish(meta, buffers)
        except asyncio.CancelledError as error:
            self._cancelled((call,), hosted, error)
        except USER_ERRORS as error:
            self._fail(call, hosted, error)
        finally:
            self._end(call)

    def _cancelled(self, calls: Sequence[ServiceCall], hosted: HostedMethod, error: asyncio.CancelledError) -> None:
        """After a task was cancelled: by its callers, who are answered already, by who ends the loop, or by itself."""
        ending = self._stopped and from_outside()
        for call in calls:
            if call.done or ending:
                call.finish(Cancelled(f"{hosted.where} was cancelled"))
            else:
                self._fail(call, hosted, error)  # the method let a cancellation of its own escape

    async def _run_synchronous(self, hosted: HostedMethod, call: ServiceCall) -> None:
        enter(call.context, call.meta.trace)
        try:
            answer = await self._in_thread(self._whole_call, hosted, call)
            if isinstance(answer, BaseException):
                self._fail(call, hosted, answer)
            else:
                call.finish(*answer)
        except Exception as error:  # noqa: BLE001 - there is no thread for it
            self._fail(call, hosted, error)
        finally:
            call.finish(Cancelled(f"{hosted.where} was cancelled"))  # only when the task itself was
            self._end(call)

    def _whole_call(self, hosted: HostedMethod, call: ServiceCall) -> Answer | BaseException:
        """Decodes, runs and encodes in this thread. An error is returned: a future cannot hold every exception."""
        try:
            if call.done:
                return Cancelled("the call was given up before a thread was free")
            arguments = hosted.decode(call)
            value = hosted.function(*arguments.args, **arguments.kwargs)
            hosted.ran((call,))
            return hosted.encode(call, value)
        except USER_ERRORS as error:
            return error
        finally:
            if call.folder is not None:
                call.folder.remove()

    async def _run_batch(self, hosted: HostedMethod, calls: Sequence[ServiceCall]) -> None:
        decoded: list[tuple[ServiceCall, Arguments]] = []
        try:
            for call in calls:
                if hosted.heavy_body(call):
                    arguments = await self._batches.decode_aside(hosted, call)
                else:
                    arguments = self._batches.decode(hosted, call)
                if arguments is not None:
                    decoded.append((call, arguments))
            live = [(call, (arguments.args, arguments.kwargs)) for call, arguments in decoded if not call.done]
            if live:
                await self._batches.answer(hosted, [call for call, _ in live], [item for _, item in live])
        except asyncio.CancelledError as error:
            self._cancelled(calls, hosted, error)
        finally:
            for call in calls:
                self._end(call)


def _overdue(hosted: HostedMethod, call: ServiceCall) -> DeadlineExceeded:
    """The error of a call whose time is over: its method's own limit, or the time it still had when it began.

    A call has less than that limit when its caller gave it less, or when it waited for its turn. What it takes to get
    from the gateway into the worker counts as neither.
    """
    if isinstance(call, StreamServiceCall):
        return call.overdue(hosted.where)
    began = next((instant for name, instant in call.context.timeline.stamps if name == STARTED), None)
    own_s, deadline = hosted.timeout_s, call.context.deadline
    had_s = own_s if began is None or deadline is None else max(0.0, deadline - began)
    if own_s - had_s > max(_ON_THE_WAY_S, 0.01 * own_s):
        return DeadlineExceeded(
            f"{hosted.where} did not answer within the {had_s:.3g} s that it had left when it began, of its limit of"
            f" {own_s:g} s: its caller gave it less time, or it waited for its turn"
        )
    return DeadlineExceeded(
        f"{hosted.where} did not answer within {own_s:g} s. The limit is timeout_s of @trilith.api or @trilith.service"
    )

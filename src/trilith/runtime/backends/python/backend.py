"""One instance of a Python model in the runtime: its process, the connection to it, and what keeps it alive.

Rule 1: everything of one instance happens on the loop's thread, but loading, starting again (a thread of its
    own) and closing.
Rule 2: each batch that was sent ends once: answered, failed with how its process ended, or given back because that
    process had not begun it.
Rule 3: what to do about the process is decided in `supervision`; this file does it.
Rule 4: a process whose connection is broken (a model may write to it, or close it) is replaced at once: it takes
    nothing more, and whatever it still says is not believed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from trilith.core.attention import Attention
from trilith.core.model import ModelSignature
from trilith.core.tensor import Array
from trilith.errors import ReplicaLost, SetupError, TrilithError
from trilith.net.transport import LostCall, Peer, Reply, peer_from_socket
from trilith.runtime.backends.port import (
    LifeReport,
    ModelControl,
    ModelFile,
    Outcome,
    RequestBackend,
    RequestBatch,
)
from trilith.runtime.backends.python import messages
from trilith.runtime.backends.python.asking import Answering
from trilith.runtime.backends.python.calls import AnswerReader, RunningCall, packed_call
from trilith.runtime.backends.python.completion import signature_of
from trilith.runtime.backends.python.counted import CountedByModels
from trilith.runtime.backends.python.loading import Loading, hear, life_limits
from trilith.runtime.backends.python.messages import Question, Serve, TakenBack, Told
from trilith.runtime.backends.python.process import BUSY_TIMEOUT_S, FINALIZE_TIMEOUT_S, InstanceProcess
from trilith.runtime.backends.python.supervision import (
    InstanceState,
    KillProcess,
    StartProcess,
    Supervisor,
)
from trilith.runtime.signature import Offer
from trilith.runtime.spec import ModelSpec
from trilith.runtime.unexpected import unexpected

READY_TIMEOUT_S: Final = 5.0
_MOST_AHEAD_BYTES: Final = 128 * 1024  # of what is sent ahead of the next one
_TICK_S: Final = 0.1  # while something runs: how soon a model sees that a caller went away
_IDLE_TICK_S: Final = 1.0
_EXIT_AFTER_LOSS_S: Final = 2.0
_log: Final = logging.getLogger("trilith.runtime")


class PythonBackend(RequestBackend):
    """Runs one instance of a `model.py`: the model's own, or the `script` that serves every model of its backend."""

    def __init__(
        self,
        file: ModelFile,
        counted: CountedByModels,
        control: Callable[[], ModelControl] | None = None,
        script: Path | None = None,
    ) -> None:
        self._file = file
        self._name = f"{file.model}_0_{file.instance}"
        self._hear = functools.partial(hear, file.model, counted)
        self._loading = Loading(file, self._name, self._hear, script)
        self._answering = Answering(file.model, control)
        self._asked: set[asyncio.Task[None]] = set()
        self._readiness: asyncio.Future[bool] | None = None
        self._supervisor = Supervisor(life_limits(file))
        self._attention = Attention(_IDLE_TICK_S)
        self._closing = threading.Lock()  # held while the process to end may change
        self._closed = False
        self._process: InstanceProcess | None = None
        self._peer: Peer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._running: dict[int, RunningCall] = {}
        self._sent_bytes = 0  # of what runs

    # -- loading -----------------------------------------------------------------------------------------------------

    def load(self) -> ModelSignature:
        """Starts a process and lets it load the model.

        Raises:
            SetupError: the model cannot be loaded; the message has what it raised.
            UnknownReference: there is no such file.
        """
        self._loading.prepare()
        self._start(complete=True)
        return signature_of(self._loading.spec)

    def completed(self) -> ModelSpec:
        """The configuration with what the model completed of it."""
        return self._loading.spec

    def warm(self, inputs: dict[str, Array], outputs: tuple[str, ...]) -> None:
        """See `RequestBackend.warm`."""
        if self._process is not None:
            self._loading.warm(self._process, inputs, outputs)

    def tell_heard(self, heard: Callable[[], None]) -> None:
        """See `RequestBackend.tell_heard`."""
        self._loading.installer.on_heard = heard

    def give_up(self, reason: str) -> None:
        """See `RequestBackend.give_up`: the process is ended, and what makes its environment."""
        self._loading.installer.stop(reason)
        with self._closing:
            self._closed = True
            process = self._process
        if process is not None:
            process.give_up(reason)

    def _start(self, *, complete: bool) -> InstanceProcess:
        process = self._loading.new_process(self._exited, self._asks, self._says_ready)
        with self._closing:
            if self._closed:
                raise SetupError(f"model '{self._file.model}' was stopped")
            self._process = process
        self._loading.load(process, complete=complete)
        return process

    # -- serving -----------------------------------------------------------------------------------------------------

    def attach(self, loop: asyncio.AbstractEventLoop, offer: Offer, on_life: Callable[[LifeReport], None]) -> None:
        """See `RequestBackend.attach`."""
        self._loop = loop
        self._reader = AnswerReader(self._file.model, offer)
        self._on_life = on_life
        self._datatypes = {spec.name: spec.datatype for spec in offer.inputs}
        if self._process is not None:
            self._connect(self._process)
        self._tick()

    @property
    def pid(self) -> int:
        """See `RequestBackend.pid`."""
        process = self._process
        return process.pid if process is not None and process.alive else 0

    @property
    def has_room(self) -> bool:
        """See `RequestBackend.has_room`. There is none while large tensors are on their way."""
        peer = self._peer
        return (
            peer is not None and peer.credits > 0 and (len(self._running) < 2 or self._sent_bytes < _MOST_AHEAD_BYTES)
        )

    def begin(self, batch: RequestBatch, on_done: Callable[[Outcome], None]) -> None:
        """See `RequestBackend.begin`."""
        call = RunningCall(batch, on_done, time.monotonic())
        try:
            meta, buffers = packed_call(self._file.model, batch, self._datatypes)
            if self._peer is None:
                raise ReplicaLost("it is not connected")
            call.size_bytes = sum(map(len, buffers))
            call.id = self._peer.call(meta, buffers, functools.partial(self._replied, call))
        except ReplicaLost:
            self._later(functools.partial(on_done, call.not_begun()))
            return
        except TrilithError as error:
            self._later(functools.partial(on_done, call.failed(error)))
            return
        self._running[call.id] = call
        self._sent_bytes += call.size_bytes

    def _connect(self, process: InstanceProcess) -> None:
        with contextlib.suppress(OSError):  # it has gone meanwhile: its exit is seen below
            messages.send(process.socket, Serve(self._loading.spec.pure))
        try:
            self._peer = peer_from_socket(process.socket, grant=0, prepare=functools.partial(self._prepare, process))
        except OSError as error:
            process.kill(f"it cannot be connected: {error}")
            self._not_started(f"it cannot be connected: {error}")
            return
        if not process.alive:  # it has gone meanwhile, and nobody listened
            self._ended(process)

    def _greeted(self) -> None:
        """It takes calls from now on."""
        if self._supervisor.state is InstanceState.STARTING:
            self._supervisor.started(time.monotonic())
            self._on_life(LifeReport(alive=True, restarts=dict(self._supervisor.restarts)))

    def _prepare(self, process: InstanceProcess, peer: Peer) -> None:
        peer.on_credits = self._greeted
        peer.on_notice = self._on_notice
        peer.on_lost = functools.partial(self._lost, process, peer)

    def _on_notice(self, raw: bytes) -> None:
        self._hear(messages.decode(raw))

    def _replied(self, call: RunningCall, reply: Reply) -> None:
        self._let_go(call)
        try:
            outcome = self._reader.outcome(call, reply)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with an answer, its requests must be answered
            outcome = call.failed(unexpected(f"reading an answer of model '{self._file.model}'", error))
        call.on_done(outcome)

    def _let_go(self, call: RunningCall) -> None:
        if self._running.pop(call.id, None) is not None:
            self._sent_bytes -= call.size_bytes

    def _let_all_go(self) -> list[RunningCall]:
        calls, self._running, self._sent_bytes = list(self._running.values()), {}, 0
        return calls

    @property
    def asks_ready(self) -> bool:
        """See `RequestBackend.asks_ready`."""
        return self._loading.asks_ready

    async def is_ready(self) -> bool:
        """See `RequestBackend.is_ready`. A model that has not answered within 5 s is not ready."""
        process = self._process
        if process is None or self._peer is None or self._loop is None:
            return False
        if self._readiness is None:
            self._readiness = self._loop.create_future()
            process.ask_ready()
        done, _ = await asyncio.wait([self._readiness], timeout=READY_TIMEOUT_S)
        return any(answer.result() for answer in done)

    def _says_ready(self, process: InstanceProcess, ready: bool) -> None:
        """Called in the watching thread."""
        self._later(functools.partial(self._answer_ready, process, ready))

    def _answer_ready(self, process: InstanceProcess, ready: bool) -> None:
        if process is self._process and self._readiness is not None:
            self._readiness.set_result(ready)
            self._readiness = None

    def _asks(self, process: InstanceProcess, question: Question) -> None:
        """Called in the watching thread."""
        if self._peer is None:
            process.tell(Told(error="a model may ask for other models in `execute`, not while it is loaded"))
        else:
            self._later(functools.partial(self._begin_answer, process, question))

    def _begin_answer(self, process: InstanceProcess, question: Question) -> None:
        async def answer() -> None:
            process.tell(await self._answering.answer(question))

        if self._loop is not None and not self._closed:
            task = self._loop.create_task(answer())
            self._asked.add(task)
            task.add_done_callback(self._asked.discard)

    def _lost(self, process: InstanceProcess, peer: Peer, lost: list[LostCall]) -> None:
        """The connection has ended. The process' exit follows, and says more; what it did not begin is given back."""
        reason = f"its connection to the server ended: {peer.lost_reason}"
        process.lost(reason)
        if process is self._process and self._loop is not None and not self._closed:
            self._loop.call_later(_EXIT_AFTER_LOSS_S, process.kill, reason)
            report = LifeReport(
                alive=False, reason=self._loss("it is being restarted"), restarts=dict(self._supervisor.restarts)
            )
            self._on_life(report)
        for each in lost:
            if not each.accepted and each.call_id in self._running:
                call = self._running[each.call_id]
                self._let_go(call)
                call.on_done(call.not_begun())

    # -- life --------------------------------------------------------------------------------------------------------

    def _exited(self, process: InstanceProcess) -> None:
        """Called in the watching thread."""
        if self._loop is not None and not self._closed:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody needs to know
                self._loop.call_soon_threadsafe(self._ended, process)

    def _ended(self, process: InstanceProcess) -> None:
        if process is not self._process or self._peer is None:
            return  # it was replaced, or it ended while it loaded, which the loading thread sees
        peer, self._peer = self._peer, None
        peer.abort()
        self._answer_ready(process, False)
        self._process = None
        self._down(f"{process.epitaph()}{process.last_words.clause}", process.epitaph())

    def _down(self, reason: str, short: str) -> None:
        """There is no process any more: its requests are answered, and what comes next is decided."""
        supervisor = self._supervisor
        now = time.monotonic()
        supervisor.exited(now)
        over = supervisor.failing
        after = (
            f"it could not be started {supervisor.failures} times in a row and is tried again in "
            f"{supervisor.not_before - now:.0f} s, and so on until it can"
            if over
            else "it is being restarted"
        )
        if supervisor.state is not InstanceState.STOPPED:
            _log.error("model '%s': instance %s: %s; %s", self._file.model, self._name, short, after)
            report = LifeReport(
                alive=False, over=over, reason=self._loss(f"{after}: {reason}"), restarts=dict(supervisor.restarts)
            )
            self._on_life(report)
        for call in self._let_all_go():
            call.on_done(call.failed(ReplicaLost(self._loss(short))))
        self._look()

    def _loss(self, why: str) -> str:
        return f"Stub process '{self._name}' is not healthy: {why}"

    def _tick(self) -> None:
        if self._closed or self._loop is None:
            return
        peer = self._peer
        for call in self._running.values():
            for at in call.newly_taken_back():
                if peer is not None:
                    peer.notify(messages.encode(TakenBack(call_id=call.id, at=at)))
        self._look()
        self._timer = self._loop.call_later(_TICK_S if self._running else _IDLE_TICK_S, self._tick)

    def _look(self) -> None:
        loop, process = self._loop, self._process
        if loop is None or self._closed:
            return
        now = time.monotonic()
        listening_since = self._attention.look(now)
        abandoned = [call.abandoned_since for call in self._running.values()]
        decision = self._supervisor.decide(
            now,
            heard_at=now if process is None else max(process.heard_at, listening_since),
            abandoned_since=next((since for since in abandoned if since is not None), None),
        )
        if isinstance(decision, StartProcess):
            self._begin_again()
        elif isinstance(decision, KillProcess):
            if process is not None:
                process.kill(decision.reason)
        elif decision.at is not None and self._supervisor.state is InstanceState.WAITING:
            loop.call_later(max(0.001, decision.at - now), self._look)

    def _begin_again(self) -> None:
        name = f"trilith start {self._name}"
        try:
            threading.Thread(target=self._start_again, name=name, daemon=True).start()
        except RuntimeError as error:  # the system has none: a failure as any other, and told in a turn of its own
            self._later(functools.partial(self._not_started, f"it cannot be started: {error}"))

    def _start_again(self) -> None:
        """Called in a thread of its own, as in `aside`: it may hang, in a model's requirements or its `initialize`."""
        try:
            process = self._start(complete=False)
        except Exception as error:  # noqa: BLE001 - whatever keeps it from starting, it is tried again
            text = error.message if isinstance(error, TrilithError) else f"{type(error).__name__}: {error}"
            self._later(functools.partial(self._not_started, text))
        else:
            self._later(functools.partial(self._connect, process))

    def _not_started(self, text: str) -> None:
        if not self._closed:
            self._process = None
            self._down(text, text.partition("\n")[0])

    def _later(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(call)

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Lets the model finalize, and ends the process."""
        with self._closing:
            self._closed = True
            process = self._process
        self._supervisor.stop()
        if process is not None:
            # What still executes now has overrun the time in which it could have ended.
            process.end(BUSY_TIMEOUT_S if self._running else FINALIZE_TIMEOUT_S)
        if self._loop is not None:
            self._later(self._detach)
        elif process is not None:
            process.socket.close()

    def _detach(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._peer is not None:
            self._peer.abort()
            self._peer = None
        if self._readiness is not None:
            self._readiness.set_result(False)
            self._readiness = None
        for task in self._asked:
            task.cancel()
        for call in self._let_all_go():
            call.on_done(call.failed(ReplicaLost(self._loss("worker was stopped"))))

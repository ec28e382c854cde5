"""The process of one instance of a Python model: `python -m ... MODEL LOG SOCKET_FD LIFELINE_FD DESK_FD PARENT_PID`.

Rule 1: everything of the model runs on the main thread, with no event loop running there, as in Triton: `asyncio.run`
    works inside `execute`. The loop runs between executions, until the next call has come.
Rule 2: a thread says once a second that this process lives, whatever the model does.
Rule 3: nothing that the model raises ends the process; what the model does to it (`os._exit`, a signal) does.
Rule 4: a model whose `initialize` has returned finalizes, whatever comes after: a failed warm-up, the end before it was
    told to serve, the end amid an execution. One that is told to end earlier ends there, in the middle of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import signal
import socket
import sys
import threading
from collections import deque
from typing import Final

import msgspec

from trilith.core import forks
from trilith.core.collector import settle_collector, watch_growth
from trilith.core.lifeline import die_with_parent
from trilith.core.log_options import LogOptions
from trilith.core.logs import configure_logging
from trilith.errors import ModelError
from trilith.net.transport import IncomingCall, Peer, peer_from_socket
from trilith.runtime.backends.python import messages, pb_utils
from trilith.runtime.backends.python.descriptors import moved_up, opening_above
from trilith.runtime.backends.python.desk import Asking
from trilith.runtime.backends.python.hosted import HostedModel, described
from trilith.runtime.backends.python.messages import (
    Begin,
    Completed,
    Failed,
    Initialize,
    Message,
    Ready,
    Serve,
    TakenBack,
    Warm,
)
from trilith.runtime.backends.python.packing import BatchAnswer, decode_requests, encode_answer
from trilith.runtime.backends.python.pb_utils.control import Desk
from trilith.runtime.backends.python.pb_utils.observe import Outlet
from trilith.runtime.backends.python.readiness import ASK, Readiness
from trilith.runtime.backends.python.writing import Writing
from trilith.wire.tensors import Buffer

_SIGN_OF_LIFE_S: Final = 1.0
_CATCH_UP_S: Final = 0.001
_LEAVE_S: Final = 1.0  # for the answers that are on their way
_JUST_INITIALIZED_S: Final = 0.1  # `initialize` may have returned a moment ago, on the other thread
_CALLS_AT_A_TIME: Final = 32  # at most; how many there are, the runtime decides


class Worker:
    """One instance's process."""

    def __init__(self, sock: socket.socket, lifeline: socket.socket) -> None:
        self._socket = sock
        self._lifeline = lifeline
        with opening_above():
            self._loop = asyncio.new_event_loop()
        self._calls: deque[IncomingCall] = deque()
        self._taken_back: dict[int, set[int]] = {}  # by call, for those that are not answered: which of its requests
        self._folder = ""
        self._stopping = False
        self._serving = False
        self._initialized = threading.Event()
        self._hosted: HostedModel | None = None  # once it is initialized
        self._peer: Peer | None = None
        self._writing = Writing(self._flush)
        self._readiness: Readiness | None = None

    def run(self) -> None:
        """Loads the model and serves it until the lifeline or the connection ends."""
        forks.watch_loop(self._loop)
        Outlet.tell = self._tell_early
        threading.Thread(target=self._live, name="trilith sign of life", daemon=True).start()
        shall_serve = self._load()
        hosted = self._hosted
        if hosted is None:
            return
        try:
            if shall_serve:
                settle_collector()
                watch_growth(self._loop)
                asyncio.set_event_loop(None)
                self._serve(hosted)
        finally:
            hosted.finalize()

    # -- loading -----------------------------------------------------------------------------------------------------

    def _load(self) -> bool:
        """Loads the model; whether it shall serve."""
        try:
            begin = self._hear()
            if not isinstance(begin, Begin):
                raise ModelError(f"expected to be told which model to load, got {type(begin).__name__}")
            self._model, self._folder = begin.model, begin.repository
            hosted = HostedModel(begin)
            forks.end_if_forked()
            self._say(Completed(config=hosted.completed_config()))
            initialize = self._hear()
            if not isinstance(initialize, Initialize):
                raise ModelError(f"expected to be told to initialize, got {type(initialize).__name__}")
            hosted.initialize(initialize.config)
            self._hosted = hosted
            self._initialized.set()
            forks.end_if_forked()
            self._readiness = Readiness(self._lifeline, hosted.says_ready)
            self._say(Ready(asks=hosted.asks_ready))
            while not isinstance(message := self._hear(), Serve):
                self._warm(hosted, message)
                self._say(Ready())
            self._writing.together = message.repeatable
        except _UnwantedError:
            return False
        except BaseException as error:  # noqa: BLE001 - a model is the user's code; `sys.exit` raises too
            forks.end_if_forked()
            with contextlib.suppress(OSError):
                messages.send(self._socket, Failed(text=described(error, self._folder)))
            return False
        return True

    def _hear(self) -> Message:
        try:
            return messages.receive(self._socket)
        except EOFError as error:
            raise _UnwantedError from error

    def _say(self, message: Message) -> None:
        try:
            messages.send(self._socket, message)
        except OSError as error:
            raise _UnwantedError from error

    def _warm(self, hosted: HostedModel, message: Message) -> None:
        if not isinstance(message, Warm):
            raise ModelError(f"expected to be told to warm up or to serve, got {type(message).__name__}")
        late: queue.SimpleQueue[tuple[BatchAnswer, list[Buffer]]] = queue.SimpleQueue()
        requests = decode_requests(self._model, message.meta, message.buffers)
        answered = hosted.execute(requests, lambda _: False, lambda *answered: late.put(answered))
        forks.end_if_forked()
        answer, _ = answered if answered is not None else late.get()
        if answer.failure:
            raise ModelError(answer.failure)
        for head in answer.answers:
            if head.code:
                raise ModelError(head.message)

    def _tell_early(self, message: Message) -> None:
        """While the model loads, messages travel between those of the dialogue."""
        messages.send(self._socket, message)

    # -- serving -----------------------------------------------------------------------------------------------------

    def _serve(self, hosted: HostedModel) -> None:
        loop = self._loop
        loop.call_soon(self._connect)
        while not self._stopping:
            loop.run_forever()  # until a call has come, or the end
            while self._calls:
                call = self._calls.popleft()
                if self._answer(hosted, call) and self._writing.holds(call.started_at, len(self._calls)):
                    call.may_run_again()
                    continue
                # The loop's next turn may come after the next execution. Not before the call's memory was let go:
                # the runtime puts the next call there, where it is warm.
                del call
                self._writing.write()
        if self._peer is not None:
            self._leave(self._peer)

    def _leave(self, peer: Peer) -> None:
        """Ends the connection in order. What stops the loop meanwhile (a call that comes, say) stops it to go on."""
        leaving = self._loop.create_task(peer.close(_LEAVE_S))
        leaving.add_done_callback(lambda _: self._loop.stop())
        while not leaving.done():
            self._loop.run_forever()

    def _flush(self) -> None:
        if self._peer is not None:
            self._peer.flush()

    def _connect(self) -> None:
        with opening_above():
            peer = peer_from_socket(self._socket, grant=_CALLS_AT_A_TIME, prepare=self._prepare)
        self._peer = peer
        self._serving = True
        main = threading.main_thread()

        def tell(message: Message) -> None:
            if threading.current_thread() is main:
                with self._writing.own:
                    peer.notify(messages.encode(message))
                    self._let_catch_up(peer)
            else:
                self._loop.call_soon_threadsafe(peer.notify, messages.encode(message))

        Outlet.tell = tell

    def _let_catch_up(self, peer: Peer) -> None:
        """Waits while the runtime does not read what the model says as fast as it says it."""
        while not peer.writable and not peer.closed and not _loop_is_running():
            self._loop.call_later(_CATCH_UP_S, self._loop.stop)
            self._loop.run_forever()

    def _prepare(self, peer: Peer) -> None:
        peer.on_call = self._on_call
        peer.on_notice = self._on_notice
        peer.on_lost = lambda _: self._stop()

    def _on_call(self, call: IncomingCall) -> None:
        self._calls.append(call)
        self._taken_back[call.id] = set()
        self._loop.stop()

    def _on_notice(self, raw: bytes) -> None:
        message = messages.decode(raw)
        # This loop does not run while the model does, so most of these come when their call is answered.
        if isinstance(message, TakenBack) and message.call_id in self._taken_back:
            self._taken_back[message.call_id].add(message.at)

    def _stop(self) -> None:
        self._stopping = True
        self._loop.stop()

    def _answer(self, hosted: HostedModel, call: IncomingCall) -> bool:
        """Executes a call. False when the model answers it later."""
        call.begin()
        call_id = call.id
        loop = self._loop

        def on_late(answer: BatchAnswer, buffers: list[Buffer]) -> None:
            loop.call_soon_threadsafe(self._send, call, answer, buffers)

        try:
            requests = decode_requests(self._model, call.meta, call.buffers)
            self._writing.lend()
            try:
                answered = hosted.execute(requests, lambda at: self._is_taken_back(call_id, at), on_late)
            finally:
                self._writing.take_back()
        except BaseException as error:  # noqa: BLE001 - a model is the user's code; `sys.exit` raises too
            answered = BatchAnswer([], described(error, self._folder)), []
        forks.end_if_forked()
        if answered is None:
            return False
        self._send(call, *answered)
        return True

    def _send(self, call: IncomingCall, answer: BatchAnswer, buffers: list[Buffer]) -> None:
        try:
            meta = encode_answer(answer)
        except BaseException as error:  # noqa: BLE001 - values of the user's own classes
            meta, buffers = encode_answer(BatchAnswer([], described(error, self._folder))), []
        call.result(meta, buffers)
        self._taken_back.pop(call.id, None)

    def _is_taken_back(self, call_id: int, at: int) -> bool:
        """Reads what has come meanwhile; elsewhere than on the main thread, what was read before."""
        if threading.current_thread() is threading.main_thread() and not _loop_is_running():
            with self._writing.own:
                self._loop.call_soon(self._loop.stop)
                self._loop.run_forever()
        return self._stopping or at in self._taken_back.get(call_id, ())

    # -- the thread that lives -----------------------------------------------------------------------------------------

    def _live(self) -> None:
        poll = select.poll()
        poll.register(self._lifeline, select.POLLIN)
        with contextlib.suppress(OSError):  # the runtime is gone, which is the end too
            while True:
                self._lifeline.send(b".")
                if poll.poll(_SIGN_OF_LIFE_S * 1e3):
                    if ASK not in self._lifeline.recv(64):
                        break
                    if self._readiness is not None:
                        self._readiness.ask()
        if not self._initialized.wait(_JUST_INITIALIZED_S):
            os._exit(0)  # it still loads, and nobody wants it any more
        self._stopping = True
        self._loop.call_soon_threadsafe(self._stop)
        if not self._serving:
            with contextlib.suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RD)  # it may be waiting there to be told to serve


class _UnwantedError(Exception):
    """The runtime has ended the dialogue: nobody wants the model any more."""


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def main(arguments: list[str]) -> None:
    """Runs the process."""
    log, *numbers = arguments[1:]  # the first one is for people: which model's process it is
    *descriptors, parent = map(int, numbers)
    die_with_parent(parent)
    # The server says when to stop, by the lifeline: a signal to all its processes would end a model before its turn.
    forks.outlive_here((signal.SIGINT, signal.SIGTERM))
    configure_logging(msgspec.json.decode(log, type=LogOptions))
    sys.modules["triton_python_backend_utils"] = pb_utils
    sock, lifeline, desk = (socket.socket(fileno=moved_up(descriptor)) for descriptor in descriptors)
    for guarded in (sock, lifeline, desk):
        forks.guard(guarded.fileno())
    forks.confine_forks()
    Desk.ask = Asking(desk).ask
    Worker(sock, lifeline).run()


if __name__ == "__main__":
    main(sys.argv[1:])

"""One process of one instance: started by exec, watched by the thread that started it.

Rule 1: the thread that starts a process stays with it to its end. The kernel ends a child with the thread that started
    it, so the two live equally long (and the thread is a daemon, or a program that forgets its runtime could not end);
    and the end of the process is known at once, whatever its own children hold open.
Rule 2: what the process writes to its standard error is passed on as it is, and its last lines are kept.
Rule 3: a sign of life is a byte on the lifeline, once a second from a thread of its own. The end of the lifeline tells
    the process to finalize its model and go.
Rule 4: one that may have initialized its model is asked to go before it is killed; whether it has, it knows better.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from trilith.core.logs import applied_options
from trilith.errors import ModelError, SetupError
from trilith.runtime.backends.python import messages
from trilith.runtime.backends.python.last_words import LastWords
from trilith.runtime.backends.python.launch import Launch
from trilith.runtime.backends.python.messages import Failed, Initialize, Message, Question, Ready, Told
from trilith.runtime.backends.python.readiness import ASK, NO, YES

FINALIZE_TIMEOUT_S: Final = 30.0
BUSY_TIMEOUT_S: Final = 1.0
_FOREIGN: Final = "does the model write to, or close, file descriptors that it did not open?"
_EXITING: Final = 0x4  # of the kernel's flags of a process: it is on its way out
_DESK_TIMEOUT_S: Final = 5.0  # for the rest of a question whose beginning has come
_LOOK_S: Final = 0.05  # where the kernel cannot tell of an exit (no pidfd) it is looked for so often


class InstanceProcess:
    """A started process.

    Args:
        launch: how it is started.
        environment: its environment variables, where `launch` does not say others.
        name: of the instance, for messages and threads.
        on_exit: called once in the watching thread when it has ended.
        on_question: called in the watching thread when its model asks something; `tell` answers.
        on_readiness: called in the watching thread with what its model said of itself after `ask_ready`.

    Attributes:
        socket: the connection to it: messages first, frames when it is ready.
        heard_at: when it last gave a sign of life, in seconds.
        last_words: the end of what it wrote to its standard error.
    """

    def __init__(
        self,
        launch: Launch,
        environment: Mapping[str, str],
        name: str,
        on_exit: Callable[[InstanceProcess], None],
        on_question: Callable[[InstanceProcess, Question], None],
        on_readiness: Callable[[InstanceProcess, bool], None],
    ) -> None:
        self.socket, self._their_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lifeline, self._their_lifeline = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._desk, self._their_desk = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._launch = launch
        self._environment = {**environment, **launch.variables}
        self._name = name
        self._on_exit = on_exit
        self._on_question = on_question
        self._on_readiness = on_readiness
        self._kill_reason = ""
        self._ending = False
        self._may_be_initialized = False
        self._busy = False  # with what it was asked
        self._given_up_for = ""
        self._kill_at: float | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._start_error: OSError | None = None
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"trilith {name} process", daemon=True)
        self.heard_at = time.monotonic()
        self.last_words = LastWords()

    def start(self) -> None:
        """Starts it.

        Raises:
            SetupError: the system cannot.
        """
        self._thread.start()
        self._begun.wait()
        if self._start_error is not None:
            self.socket.close()
            raise SetupError(f"{self._name}: cannot start {self._launch.command[0]}: {self._start_error}")

    @property
    def pid(self) -> int:
        """The process id; 0 when it was never started."""
        return 0 if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it was started and its end was not seen."""
        return self._begun.is_set() and not self._ended.is_set()

    def ask(self, message: Message, hear: Callable[[Message], None]) -> Message:
        """Says something and waits for the answer; what comes before it goes to `hear`.

        Raises:
            SetupError: the process failed or ended instead.
        """
        self._may_be_initialized |= isinstance(message, Initialize)
        self._busy = True
        try:
            messages.send(self.socket, message)
            while True:
                answer = messages.receive(self.socket)
                if isinstance(answer, Failed):
                    self._may_be_initialized &= not isinstance(message, Initialize)
                    raise SetupError(answer.text)
                if isinstance(answer, messages.Completed | Ready):
                    return answer
                hear(answer)
        except (OSError, EOFError) as error:
            self.wait(5.0)
            raise SetupError(f"{self.epitaph()}{self.last_words.clause}") from error
        except ModelError as error:
            raise SetupError(error.message) from error
        finally:
            self._busy = False
            if self._kill_at is not None:  # it was given up meanwhile, and finalizes now
                self._kill_at = time.monotonic() + FINALIZE_TIMEOUT_S

    def tell(self, answer: Told) -> None:
        """Answers the question that its model asked. Nothing happens when the process is gone."""
        with contextlib.suppress(OSError):  # it is gone
            messages.send(self._desk, answer)

    def ask_ready(self) -> None:
        """Asks its model whether it is ready."""
        with contextlib.suppress(OSError):  # it is gone: its exit is seen
            self._lifeline.send(ASK)

    def kill(self, reason: str) -> None:
        """SIGKILL. The reason becomes part of its epitaph."""
        self._kill_reason = self._kill_reason or reason
        process = self._process
        if process is not None and not self._ended.is_set():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                process.send_signal(signal.SIGKILL)

    def give_up(self, reason: str) -> None:
        """Ends it, and returns at once. A model that is initialized finalizes first."""
        if not self._may_be_initialized:
            self.kill(reason)
            return
        self._ending, self._given_up_for = True, reason
        self._kill_at = time.monotonic() + (BUSY_TIMEOUT_S if self._busy else FINALIZE_TIMEOUT_S)
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_RDWR)  # the watching thread hears of it, too

    def lost(self, reason: str) -> None:
        """It broke what connects it to the runtime: it is killed, unless that is because it ends by itself."""
        if not self._ending and not (self._process is not None and _is_exiting(self._process.pid)):
            self.kill(f"{reason}; {_FOREIGN}")

    def fail(self) -> None:
        """Ends one that did not do what it was asked."""
        self.end(FINALIZE_TIMEOUT_S if self._may_be_initialized else 0.0)

    def end(self, timeout_s: float) -> None:
        """Lets it finalize its model, and kills it when that takes longer than `timeout_s` seconds."""
        self._ending = True
        with contextlib.suppress(OSError):  # it is gone
            self._lifeline.shutdown(socket.SHUT_WR)
        if not self._ended.wait(timeout_s) and self.alive:
            self.kill(f"it did not end within {timeout_s:g} s")
            self._ended.wait()

    def wait(self, timeout_s: float) -> bool:
        """Waits for its end. False when it has not come in time."""
        return self._ended.wait(timeout_s)

    def epitaph(self) -> str:
        """How it ended: `worker died: signal 11 (SIGSEGV)`."""
        code = None if self._process is None else self._process.returncode
        if self._kill_reason and code in (None, -signal.SIGKILL):  # else it was quicker
            return f"worker was killed: {self._kill_reason}"
        if code is None:
            return "worker ended its connection"
        if code < 0:
            with contextlib.suppress(ValueError):  # a number without a name
                return f"worker died: signal {-code} ({signal.Signals(-code).name})"
            return f"worker died: signal {-code}"
        return f"worker died: exit code {code}"

    # -- the watching thread -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            theirs = [sock.fileno() for sock in (self._their_socket, self._their_lifeline, self._their_desk)]
            log = msgspec.json.encode(applied_options()).decode()
            process = self._process = subprocess.Popen(
                [*self._launch.command, self._name, log, *map(str, theirs), str(os.getpid())],
                pass_fds=theirs,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                process_group=0,  # a terminal's Ctrl-C is the server's alone
                env=self._environment,
            )
        except OSError as error:
            self._start_error = error
            self._lifeline.close()
            self._desk.close()
            self._ended.set()
            self._begun.set()
            return
        finally:
            self._their_socket.close()
            self._their_lifeline.close()
            self._their_desk.close()
        self._begun.set()
        if self._kill_reason:  # it was killed while it was being started
            self.kill(self._kill_reason)
        try:
            self._stay_with(process)
        finally:
            process.wait()
            if process.stderr is not None:
                process.stderr.close()
            self._lifeline.close()
            self._desk.close()
            self._ended.set()
            self._on_exit(self)

    def _stay_with(self, process: subprocess.Popen[bytes]) -> None:
        if process.stderr is None:
            return
        errors = process.stderr.fileno()
        os.set_blocking(errors, False)
        self._lifeline.setblocking(False)
        self._desk.settimeout(_DESK_TIMEOUT_S)
        with contextlib.ExitStack() as undo:
            readers = {
                errors: lambda: self.last_words.read(errors),
                self._lifeline.fileno(): self._read_lifeline,
                self._desk.fileno(): self._read_desk,
            }
            poll = select.poll()
            for descriptor in readers:
                poll.register(descriptor, select.POLLIN)
            exit_fd = _exit_descriptor(process.pid)
            if exit_fd is not None:
                undo.callback(os.close, exit_fd)
                poll.register(exit_fd, select.POLLIN)
            look_s = math.inf if exit_fd is not None else _LOOK_S
            while process.poll() is None:
                for descriptor, _ in poll.poll(self._poll_ms(look_s)):
                    if descriptor in readers and not readers[descriptor]():
                        poll.unregister(descriptor)
            while self.last_words.read(errors):
                pass

    def _poll_ms(self, look_s: float) -> float | None:
        """How long nothing needs to be looked at; None: until something happens. Kills it when its time has come."""
        kill_at = self._kill_at
        if kill_at is not None:
            left_s = kill_at - time.monotonic()
            if left_s <= 0.0:
                self._kill_at = None
                self.kill(self._given_up_for)
            else:
                look_s = min(look_s, left_s)
        return None if look_s == math.inf else look_s * 1e3 + 1

    def _read_lifeline(self) -> int:
        try:
            data = self._lifeline.recv(4096)
        except BlockingIOError:
            return 1
        except OSError:
            data = b""
        if data:
            self.heard_at = time.monotonic()
            if YES in data or NO in data:
                self._on_readiness(self, data.rfind(YES) > data.rfind(NO))
        else:
            self.lost("it closed the descriptor by which it tells that it lives")
        return len(data)

    def _read_desk(self) -> int:
        """Passes on one question. Whatever is none is the end of the process: its model wrote there itself."""
        try:
            question = messages.receive(self._desk)
        except EOFError:
            self.lost("it closed the connection by which its model asks")
            return 0
        except ModelError as error:
            self.lost(error.message)
            return 0
        if not isinstance(question, Question):
            self.lost(f"it asked with a {type(question).__name__}, which is no question")
            return 0
        self._on_question(self, question)
        return 1


def _is_exiting(pid: int) -> bool:
    """Whether the process is on its way out: the kernel closes its files then. False where the system cannot tell."""
    try:
        flags = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]
    except OSError:
        return Path("/proc/self/stat").exists()  # it is gone already
    return bool(int(flags) & _EXITING)


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):
        return None

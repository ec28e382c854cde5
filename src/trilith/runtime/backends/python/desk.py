"""The way of a model's questions to the runtime: a connection of their own, from the model's process."""

from __future__ import annotations

import socket
import threading

from trilith.errors import ModelError
from trilith.runtime.backends.python import messages
from trilith.runtime.backends.python.messages import Question, Told


class Asking:
    """Asks the runtime, from any thread, one question at a time."""

    def __init__(self, desk: socket.socket) -> None:
        self._desk = desk
        self._lock = threading.Lock()

    def ask(self, question: Question) -> Told:
        """Blocks until the answer has come.

        Raises:
            OSError, EOFError, ModelError: the connection is broken.
        """
        with self._lock:
            messages.send(self._desk, question)
            answer = messages.receive(self._desk)
        if not isinstance(answer, Told):
            raise ModelError(f"expected an answer to a question, got {type(answer).__name__}")
        return answer

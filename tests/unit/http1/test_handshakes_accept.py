"""What accept(2) may answer: the errors of one connection are passed over, all others wait."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl

import pytest

from trilith.net.handshakes import Handshakes
from trilith.net.statistics import ServerCounters


class Listening:
    """A listening socket whose `accept` answers what it was given, then that nobody waits."""

    def __init__(self, *answers: object) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.answers = list(answers)

    def fileno(self) -> int:
        return self.ours.fileno()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()

    def accept(self) -> object:
        answer = self.answers.pop(0) if self.answers else BlockingIOError(errno.EAGAIN, "nobody")
        if isinstance(answer, Exception):
            raise answer
        return answer


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def accepted(*answers: object) -> tuple[int, list[dict[str, object]], bool]:
    """How many connections were taken, what the loop complains of, and whether the socket is listened to still."""

    async def main() -> tuple[int, list[dict[str, object]], bool]:
        complaints: list[dict[str, object]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        counters = ServerCounters()
        shakes = Handshakes(context, asyncio.Protocol, timeout_s=5.0, room=lambda: 10, counters=counters)
        listening = Listening(*answers)
        shakes.accept_on(listening)  # type: ignore[arg-type]
        listening.theirs.send(b"x")
        for _ in range(3):
            await asyncio.sleep(0)
        listens = loop.remove_reader(listening.fileno())
        taken = len(shakes._held)
        shakes.close()
        for _ in range(3):
            await asyncio.sleep(0)
        return taken, complaints, listens

    return asyncio.run(main())


@pytest.mark.parametrize(
    "name", ["ECONNABORTED", "ENETDOWN", "EPROTO", "ENOPROTOOPT", "EHOSTDOWN", "ENONET", "EHOSTUNREACH", "EOPNOTSUPP"]
)
def test_an_error_of_one_connection_is_passed_over(name: str) -> None:
    client, server = socket.socketpair()
    with client:
        taken, complaints, listens = accepted(error(getattr(errno, name)), (server, ""))
    assert (taken, complaints, listens) == (1, [], True)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EINVAL])
def test_all_others_wait_and_are_said(number: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        taken, complaints, listens = accepted(error(number))
    assert (taken, complaints, listens) == (0, [], False)
    assert f"connections wait: {os.strerror(number)}" in caplog.text

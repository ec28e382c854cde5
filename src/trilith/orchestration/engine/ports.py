"""The ports of a server, bound together: of several that are taken all are told at once, and who has them."""

from __future__ import annotations

import contextlib
import socket

from trilith.errors import PortInUse
from trilith.net.listen import listen_tcp
from trilith.orchestration.engine.places import ServerRecord, read_records


class Ports:
    """Binds one after the other, and notes those that are taken."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._taken: list[tuple[str, int, PortInUse]] = []

    def listen(self, undo: contextlib.ExitStack, port: int | None, option: str) -> list[socket.socket]:
        """The sockets of a port, none for one that is off, or taken.

        Raises:
            SetupError: the address cannot be used.
        """
        if port is None:
            return []
        off = "" if option == "--http-port" else ", off: none"
        try:
            listening = listen_tcp(self._host, port, choice=f"another port with {option} (0: any free one{off})")
        except PortInUse as error:
            self._taken.append((option, port, error))
            return []
        for each in listening:
            undo.enter_context(each)
        return listening

    def check(self) -> None:
        """Sees that none was taken.

        Raises:
            PortInUse: one was.
        """
        if not self._taken:
            return
        (_, port, first), *others = self._taken
        found = next((record for record in read_records() if port in _ports(record)), None)
        message = (
            first.message if found is None else f"{first.message}. It is the server of {found.target} (pid {found.pid})"
        )
        if others:
            names = " and ".join(f"{option} ({port})" for option, port, _ in others)
            message += f". So {'is' if len(others) == 1 else 'are'} {names}: give another for each"
        raise PortInUse(message)


def _ports(record: ServerRecord) -> set[int]:
    addresses = (record.http, record.grpc, record.metrics)
    return {int(address.rpartition(":")[2]) for address in addresses if address}

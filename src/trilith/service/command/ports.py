"""The port of a command's process."""

from __future__ import annotations

import socket

from trilith.errors import SetupError

HOST = "127.0.0.1"
"""Where the process is reached."""


def take_port(name: str, wanted: int) -> int:
    """The port that the process of the service `name` is told: `wanted`, or a free one for 0.

    It is free when it is looked at. A program that takes it before the process does has the start fail, and the next
    one is told another.

    Raises:
        SetupError: the port that is wanted is taken.
    """
    with socket.socket() as probe:
        # As servers do: a port whose connections have ended a moment ago is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise SetupError(
                f"{name}: port {wanted} is taken, which its command is to listen on; leave out port=, and it gets a"
                " free one"
            ) from error
        return int(probe.getsockname()[1])

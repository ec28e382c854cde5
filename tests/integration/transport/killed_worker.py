"""A worker process for the tests of sudden death. Its first argument is the path to connect to.

The metadata of a call says what to do with it: `answer`, `hold`, `begin`, or `die` (begin, then at once SIGKILL).
Of each call that it begins it tells the id on its standard output, before it begins it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import uvloop

from trilith.net.transport import IncomingCall, LostCall, Peer, connect


async def main() -> None:
    ended = asyncio.get_running_loop().create_future()
    held: list[IncomingCall] = []

    def begin(call: IncomingCall) -> None:
        os.write(1, f"{call.id}\n".encode())
        call.begin()

    def on_call(call: IncomingCall) -> None:
        if call.meta == b"answer":
            begin(call)
            call.result(b"", call.buffers)
            return
        held.append(call)
        if call.meta == b"begin":
            begin(call)
        elif call.meta == b"die":
            call.begin()
            os.kill(os.getpid(), signal.SIGKILL)

    def on_lost(_: list[LostCall]) -> None:
        ended.set_result(None)

    def prepare(peer: Peer) -> None:
        peer.on_call, peer.on_lost = on_call, on_lost

    await connect(sys.argv[1], grant=64, prepare=prepare)
    await ended


if __name__ == "__main__":
    uvloop.run(main())

"""SIGKILL of a real worker in mid-call: every call ends once, and what was begun is known."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from trilith.net.transport import Listener, LostCall, Peer, Reply

WORKER = Path(__file__).with_name("killed_worker.py")


class Gateway:
    """Listens, starts one worker and keeps what becomes of the calls to it."""

    def __init__(self, folder: Path) -> None:
        self.replies: dict[int, Reply] = {}
        self.lost: list[LostCall] = []
        self.connected: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        path = folder / "gateway.sock"
        self.listener = Listener(self._on_peer, grant=8)
        self.listener.start(path)
        self.process = subprocess.Popen([sys.executable, str(WORKER), str(path)], stdout=subprocess.PIPE)

    def _on_peer(self, peer: Peer) -> None:
        peer.on_lost = self._on_lost
        self.connected.set_result(peer)

    def _on_lost(self, lost: list[LostCall]) -> None:
        self.lost += lost
        self.ended.set_result(None)

    async def peer(self) -> Peer:
        peer = await self.connected
        await peer.wait_greeted()
        return peer

    def call(self, peer: Peer, meta: bytes, body: bytes = b"") -> int:
        def on_reply(reply: Reply) -> None:
            assert call_id not in self.replies
            self.replies[call_id] = reply

        call_id = peer.call(meta, [body], on_reply)
        return call_id

    def finish(self) -> set[int]:
        """Cleans up; returns the calls that the worker said it would begin."""
        self.listener.close()
        self.process.kill()
        output, _ = self.process.communicate(timeout=10)
        return {int(line) for line in output.split()}


def test_each_call_ends_once_and_says_whether_it_was_begun(run, tmp_path):
    async def main():
        gateway = Gateway(tmp_path)
        peer = await gateway.peer()
        calls = {}
        for number in range(30):
            meta = (b"answer", b"hold", b"begin")[number % 3]
            calls[gateway.call(peer, meta, b"x" * 10 ** (number % 6))] = meta
        answered = {call_id for call_id, meta in calls.items() if meta == b"answer"}
        await until(lambda: set(gateway.replies) == answered)
        gateway.call(peer, b"answer")
        await until(lambda: len(gateway.replies) == 11)  # everything before it was seen by the worker
        gateway.process.kill()
        await gateway.ended
        expected = [LostCall(call_id, meta == b"begin") for call_id, meta in calls.items() if meta != b"answer"]
        assert gateway.lost == expected
        assert len(gateway.replies) == 11
        peer.check_integrity()
        gateway.finish()

    run(main())


def test_a_begin_is_seen_though_the_worker_dies_in_the_next_instruction(run, tmp_path):
    async def main():
        gateway = Gateway(tmp_path)
        peer = await gateway.peer()
        held, deadly = gateway.call(peer, b"hold"), gateway.call(peer, b"die")
        later = gateway.call(peer, b"answer")
        await gateway.ended
        assert gateway.lost == [LostCall(held, False), LostCall(deadly, True), LostCall(later, False)]
        assert gateway.replies == {}
        gateway.finish()

    run(main())


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_doubled_when_a_busy_worker_is_killed(run, tmp_path, seed):
    async def main():
        gateway = Gateway(tmp_path)
        peer = await gateway.peer()
        numbers = random.Random(seed)
        sent: set[int] = set()
        enough = numbers.randint(200, 2000)
        while not peer.closed:
            for _ in range(peer.credits):
                sent.add(
                    gateway.call(
                        peer, numbers.choice([b"answer"] * 50 + [b"begin"]), b"x" * numbers.choice([1, 99_999])
                    )
                )
            if len(sent) > enough:
                gateway.process.kill()
                enough = 10**9
            if not peer.credits and peer.in_flight and all_held(peer, gateway, sent):
                gateway.process.kill()
            await asyncio.sleep(0)
        begun = gateway.finish()
        lost = {call.call_id for call in gateway.lost}
        accepted = {call.call_id for call in gateway.lost if call.accepted}
        assert lost | set(gateway.replies) == sent
        assert not lost & set(gateway.replies)
        assert len(lost) == len(gateway.lost)
        assert accepted <= begun  # it said so, then began
        assert len((begun & lost) - accepted) <= 1  # killed in between
        assert all(reply.ok for reply in gateway.replies.values())

    run(main())


def all_held(peer: Peer, gateway: Gateway, sent: set[int]) -> bool:
    """The worker holds so many calls that it answers none any more."""
    return peer.in_flight == 64 and len(sent) - len(gateway.replies) == 64

"""mosec: one worker with dynamic batching, as documented; a batch waits as long as a call takes, no longer."""

from __future__ import annotations

import time
from typing import Any

from mosec import Server, Worker


class Doubled(Worker):
    """`POST /inference` with `{"x": [2.0]}`."""

    def forward(self, data: list[dict[str, Any]]) -> list[list[float]]:
        time.sleep(0.005)
        return [[2 * float(one) for one in each["x"]] for each in data]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Doubled, num=1, max_batch_size=32, max_wait_time=5)
    server.run()

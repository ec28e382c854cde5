"""mosec: one worker process behind its Rust front, JSON as its default worker does it."""

from __future__ import annotations

from typing import Any

from mosec import Server, Worker


class Echo(Worker):
    """`POST /inference` gives the floats of `{"x": [...]}` back."""

    def forward(self, data: dict[str, Any]) -> list[float]:
        return [float(value) for value in data["x"]]


if __name__ == "__main__":
    server = Server()
    server.append_worker(Echo, num=1)
    server.run()

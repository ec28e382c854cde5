"""mosec: two worker processes, one a core, raw bytes in."""

from __future__ import annotations

from mosec import Server, Worker
from recognizer import Recognizer


class Recognize(Worker):
    """`POST /inference` with a crop as .npy."""

    def __init__(self) -> None:
        super().__init__()
        self._recognizer = Recognizer()

    def deserialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: bytes) -> list[int]:
        return self._recognizer.recognize(data)


if __name__ == "__main__":
    server = Server()
    server.append_worker(Recognize, num=2)
    server.run()

"""Sends one image to a server of `ocr.proto`, by hand or by Trilith, and prints what it read.

python examples/ocr_baseline/client.py out/ocr-page.png [--address 127.0.0.1:50051]

Needs grpcio and protobuf, which `make install` does not bring (`make dev` does):
`pip install 'grpcio>=1.74' 'protobuf>=6.30'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import grpc
import ocr_pb2
import ocr_pb2_grpc

_TIMEOUT_S: Final = 60.0


def read(address: str, image: bytes) -> ocr_pb2.Text:
    """What the server at `address` reads on an encoded image.

    Raises:
        grpc.RpcError: the call failed.
    """
    with grpc.insecure_channel(address) as channel:
        return ocr_pb2_grpc.OcrStub(channel).Read(ocr_pb2.Page(image=image), timeout=_TIMEOUT_S)


def main() -> None:
    """Prints one line of text a row."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("image", type=Path)
    arguments.add_argument("--address", default="127.0.0.1:50051")
    chosen = arguments.parse_args()
    rows: dict[int, list[str]] = {}
    for line in read(chosen.address, chosen.image.read_bytes()).lines:
        rows.setdefault(line.row, []).append(line.text)
    for _, texts in sorted(rows.items()):
        print(" ".join(texts))


if __name__ == "__main__":
    main()

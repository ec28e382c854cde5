"""What a competent team writes by hand in a day: the OCR models behind a gRPC server with threads.

    python examples/ocr_baseline/server.py [--port 50051] [--threads 10] [--tuned]

Needs grpcio and protobuf, which `make install` does not bring (`make dev` does):
`pip install 'grpcio>=1.74' 'protobuf>=6.30'`.

It is the honest thing to compare Trilith with: the same models, the same pre- and postprocessing (from examples/ocr),
no framework. As first written: default session options, a lock round the models because two pages at once fight for the
cores, one crop at a time. With --tuned: what measurement teaches (one thread a session, no spinning, denormals as zero,
no lock because sessions may be shared, crops of like width in batches of four).
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from concurrent import futures
from pathlib import Path
from types import FrameType
from typing import Final

import grpc
import ocr_pb2
import ocr_pb2_grpc
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ocr"))

import cv2
from lines import Line
from pipeline import BATCH_SIZE, OcrPipeline, tuned_options

_LARGEST_MESSAGE_BYTES: Final = 32 << 20
_GRACE_S: Final = 5.0


class OcrServicer(ocr_pb2_grpc.OcrServicer):
    """Answers `ocr_baseline.Ocr`."""

    def __init__(self, pipeline: OcrPipeline, guard: contextlib.AbstractContextManager[object]) -> None:
        self._pipeline = pipeline
        self._guard = guard

    def Read(self, request: ocr_pb2.Page, context: grpc.ServicerContext) -> ocr_pb2.Text:
        """Reads one page."""
        try:
            with self._guard:
                lines = self._pipeline.read_file(request.image)
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return ocr_pb2.Text(lines=map(_message, lines))


def _message(line: Line) -> ocr_pb2.Line:
    corners = [coordinate for corner in line.box for coordinate in corner]
    return ocr_pb2.Line(text=line.text, score=line.score, box=corners, row=line.row)


def first_version() -> OcrServicer:
    """As first written."""
    return OcrServicer(OcrPipeline.open(onnxruntime.SessionOptions, batch_size=1), threading.Lock())


def tuned_version() -> OcrServicer:
    """With what measurement teaches."""
    cv2.setNumThreads(1)
    return OcrServicer(OcrPipeline.open(tuned_options, batch_size=BATCH_SIZE), contextlib.nullcontext())


def start(servicer: OcrServicer, *, port: int, threads: int) -> tuple[grpc.Server, int]:
    """Starts a server on the loopback address; returns it and its port.

    Raises:
        RuntimeError: the port is taken.
    """
    size_limits = [
        ("grpc.max_receive_message_length", _LARGEST_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _LARGEST_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.server(futures.ThreadPoolExecutor(threads), options=size_limits)
    ocr_pb2_grpc.add_OcrServicer_to_server(servicer, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound


def main() -> None:
    """Serves until it is told to stop."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--port", type=int, default=50051, help="0 takes a free one")
    arguments.add_argument("--threads", type=int, default=10, help="pages that are read at a time")
    arguments.add_argument("--tuned", action="store_true", help="with what measurement teaches")
    chosen = arguments.parse_args()
    server, port = start(tuned_version() if chosen.tuned else first_version(), port=chosen.port, threads=chosen.threads)
    print(f"serving on 127.0.0.1:{port}", flush=True)

    def stop(number: int, frame: FrameType | None) -> None:
        server.stop(_GRACE_S)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server.wait_for_termination()


if __name__ == "__main__":
    main()

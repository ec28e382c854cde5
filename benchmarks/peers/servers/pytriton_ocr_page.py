"""PyTriton: a Triton whose model reads pages; dynamic batching and the number of instances are chosen.

python pytriton_ocr_page.py PORT --instances 2 --batch 4

An instance is a thread of this process with sessions of its own, as PyTriton makes it of a list of functions. Pages of
one batch go through the recogniser together. With --batch 1 nothing is batched.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sysconfig
from collections.abc import Callable

import numpy as np
from page_reader import PageReader
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def reader() -> Callable[..., dict[str, np.ndarray]]:
    """One instance."""
    pages = PageReader()

    @batch
    def read(image: np.ndarray) -> dict[str, np.ndarray]:
        answers = pages.read_several([one for (one,) in image])
        return {"lines": np.array([[json.dumps(lines).encode()] for lines in answers], object)}

    return read


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("port", type=int)
    arguments.add_argument("--instances", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--batch", type=int, default=4)
    chosen = arguments.parse_args()
    # The stub of the Python backend must find the library of this very Python, not that of the system's.
    os.environ["LD_LIBRARY_PATH"] = str(sysconfig.get_config_var("LIBDIR"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `serve` ends its processes on an interrupt
    config = TritonConfig(http_address="127.0.0.1", http_port=chosen.port, allow_grpc=False, allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="ocr",
            infer_func=[reader() for _ in range(chosen.instances)],
            inputs=[Tensor(name="image", dtype=bytes, shape=(1,))],
            outputs=[Tensor(name="lines", dtype=bytes, shape=(1,))],
            # Pages that wait are taken together; none is held back for others, which on a CPU would only cost time.
            config=ModelConfig(max_batch_size=chosen.batch, batcher=DynamicBatcher(max_queue_delay_microseconds=0)),
        )
        triton.serve()


if __name__ == "__main__":
    main()

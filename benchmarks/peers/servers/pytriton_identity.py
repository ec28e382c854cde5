"""PyTriton: a function bound with `@batch`, as its quick start does it, with its default of dynamic batching.

python pytriton_identity.py {http,grpc} PORT
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


@batch
def identity(INPUT0: np.ndarray) -> dict[str, np.ndarray]:
    return {"OUTPUT0": INPUT0}


def main() -> None:
    protocol, port = sys.argv[1], int(sys.argv[2])
    ports = {
        f"{protocol}_address": "127.0.0.1",
        f"{protocol}_port": port,
        f"allow_{'grpc' if protocol == 'http' else 'http'}": False,
    }
    # The stub of the Python backend must find the library of this very Python, not that of the system's.
    os.environ["LD_LIBRARY_PATH"] = str(sysconfig.get_config_var("LIBDIR"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `serve` ends its processes on an interrupt
    with Triton(config=TritonConfig(**ports, allow_metrics=False)) as triton:
        triton.bind(
            model_name="identity",
            infer_func=identity,
            inputs=[Tensor(name="INPUT0", dtype=np.float32, shape=(-1,))],
            outputs=[Tensor(name="OUTPUT0", dtype=np.float32, shape=(-1,))],
            config=ModelConfig(max_batch_size=32),
        )
        triton.serve()


if __name__ == "__main__":
    main()

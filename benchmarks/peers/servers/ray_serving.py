"""Serves one Ray Serve application on the port in the arguments until SIGTERM, on a cluster of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import ray
from ray import serve


def run(application: serve.Application, route: str) -> None:
    """Blocks until the process is told to end."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    # Replicas are started elsewhere and import the modules beside this one by this path.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(application, route_prefix=route)
    while not stopping.wait(0.5):
        pass
    serve.shutdown()
    ray.shutdown()

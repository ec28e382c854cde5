"""The Triton server that the wheel of PyTriton holds, on its own: without PyTriton, on a model repository.

python triton_serving.py {http,grpc} PORT REPOSITORY

The wheel keeps the stub of the Python backend once for each version of Python, beside the backends; a server of its own
looks for it in the folder of the backend. That folder is put together in this environment, and the server takes over
this process.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytriton


def main() -> None:
    protocol, port, repository = sys.argv[1:]
    package = Path(pytriton.__file__).parent
    server = package / "tritonserver"
    backends = Path(sys.prefix) / "triton-backends"
    stub = server / "python_backend_stubs" / f"{sys.version_info[0]}.{sys.version_info[1]}" / _STUB
    if not stub.exists():
        sys.exit(f"the wheel has no stub of the Python backend for this Python: {stub}")
    (backends / "python").mkdir(parents=True, exist_ok=True)
    for file in (*(server / "backends" / "python").iterdir(), stub):
        link = backends / "python" / file.name
        if not link.exists():
            link.symlink_to(file)
    # The stub runs this very Python, as Trilith does, when it was built with a shared library.
    libraries = [str(package.parent / "nvidia_pytriton.libs"), str(sysconfig.get_config_var("LIBDIR"))]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join([*libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    other = {"http": "grpc", "grpc": "http"}[protocol]
    command = [
        *(str(server / "bin" / "tritonserver"), "--model-repository", repository),
        *("--backend-directory", str(backends), f"--{protocol}-address", "127.0.0.1", f"--{protocol}-port", port),
        *(f"--allow-{other}", "false", "--allow-metrics", "false", "--log-info", "false"),
    ]
    os.execv(command[0], command)


_STUB = "triton_python_backend_stub"

if __name__ == "__main__":
    main()

"""What a person typed that no command understands, said like every other error: one sentence, and what to do.

Rule: one word for one thing. Words of other servers are no aliases here; whoever types one is told ours.
"""

from __future__ import annotations

import re
from typing import Final

from cyclopts import CycloptsError, UnknownCommandError, UnknownOptionError, UnusedCliTokensError

_OURS: Final = {
    "--address": "--host",
    "--bind": "--host",
    "--certfile": "--tls-certificate",
    "--exit-timeout-secs": "--drain-timeout-s",
    "--grpc-address": "--host",
    "--grpc-root-cert": "--tls-client-ca",
    "--grpc-server-cert": "--tls-certificate",
    "--grpc-server-key": "--tls-key",
    "--grpc-use-ssl": "--tls-certificate and --tls-key",
    "--grpc-use-ssl-mutual": "--tls-client-ca",
    "--http-address": "--host",
    "--http-max-input-size": "--max-body-mb",
    "--keyfile": "--tls-key",
    "--log-error": "--log-level",
    "--log-info": "--log-level",
    "--log-verbose": "--log-level debug",
    "--log-warning": "--log-level",
    "--metrics-address": "--host",
    "--model-store": "--model-repository",
    "--num-replicas": "--replicas",
    "--port": "--http-port (and --grpc-port, --metrics-port)",
    "--sagemaker-port": "--http-port",
    "--ssl-certfile": "--tls-certificate",
    "--strict-model-config": "--disable-auto-complete-config",
    "--ssl-keyfile": "--tls-key",
    "--vertex-ai-port": "--http-port",
    "--workers": "--replicas",
}
_NEEDLESS: Final = {
    "--allow-cpu-metrics": "figures of the CPU are among the metrics always",
    "--allow-gpu-metrics": "models run on the CPU",
    "--allow-client-shm": "clients send their tensors in requests",
    "--allow-grpc": "gRPC is served unless --grpc-port is off",
    "--allow-http": "HTTP is served always; --http-port says where",
    "--allow-metrics": "metrics have a port of their own unless --metrics-port is off",
    "--buffer-manager-thread-count": "there is no pool of buffers to fill",
    "--cache-config": "answers are not cached yet",
    "--cache-directory": "answers are not cached yet",
    "--cuda-memory-pool-byte-size": "models run on the CPU",
    "--cuda-virtual-address-size": "models run on the CPU",
    "--enable-peer-access": "models run on the CPU",
    "--grpc-http2-max-pings-without-data": "clients are asked whether they are there as often as they are silent",
    "--grpc-keepalive-permit-without-calls": "clients may ask at any time whether the server is there",
    "--grpc-max-response-pool-size": "there is no pool of responses to bound",
    "--grpc-infer-thread-count": "there is one loop for all connections",
    "--grpc-infer-allocation-pool-size": "there is no pool of requests to fill",
    "--host-policy": "there are no host policies",
    "--http-thread-count": "there is one loop for all connections",
    "--log-file": "the log is written to standard error, for your shell or service manager to keep",
    "--metrics-interval-ms": "metrics are read when they are asked for",
    "--min-supported-compute-capability": "models run on the CPU",
    "--model-load-gpu-limit": "models run on the CPU",
    "--pinned-memory-pool-byte-size": "models run on the CPU",
    "--rate-limit": "there is no rate limiter yet",
    "--rate-limit-resource": "there is no rate limiter yet",
    "--response-cache-byte-size": "answers are not cached yet",
    "--reuse-grpc-port": "a port is this server's alone",
    "--reuse-http-port": "a port is this server's alone",
    "--sagemaker-safe-port-range": "--http-port says the port",
    "--sagemaker-thread-count": "there is one loop for all connections",
    **dict.fromkeys(
        ("--trace-count", "--trace-file", "--trace-level", "--trace-log-frequency", "--trace-rate"),
        "each answer can bring its timeline, and --otlp-endpoint sends traces; see docs/seeing.md",
    ),
    "--trace-config": "each answer can bring its timeline; see docs/measure.md",
    "--vertex-ai-thread-count": "there is one loop for all connections",
}

_PORT: Final = re.compile(r"unable to convert (\S+) into int\|Literal\[.?off.?\]")
_WITHOUT_VALUE: Final = ("--help", "-h", "--version")


def sentence(error: CycloptsError) -> str:
    """What is wrong with a command line, in one sentence, and where its options are listed."""
    command = " ".join(("trilith", *(error.command_chain or ())))
    said = " ".join(str(error).split())
    if isinstance(error, UnknownOptionError):
        name = (error.token.keyword or error.token.value).partition("=")[0]
        said = f"there is no option {name}." + said.partition(f"{name}.")[2]
        if name in _OURS:
            said = f"there is no option {name}; here it is {_OURS[name]}."
        elif name in _NEEDLESS:
            said = f"there is no option {name}: {_NEEDLESS[name]}."
        elif name in _WITHOUT_VALUE:
            said = f"{name} takes no value."
    elif isinstance(error, UnknownCommandError) and error.unused_tokens:
        name = error.unused_tokens[0].partition("=")[0]
        said = f"{name} takes no value." if name in _WITHOUT_VALUE else said
    elif isinstance(error, UnusedCliTokensError):
        tokens = error.unused_tokens or []
        said = f"{' '.join(tokens)!r} is one argument too many."
        if tokens and tokens[0].lower() in ("true", "false"):
            said += " What is on or off takes no value: say --strict-readiness or --no-strict-readiness."
    said = _PORT.sub(r"expected a port's number or `off`, got \1", said)
    return f"{said} `{command} --help` lists what there is"

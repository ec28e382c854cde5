"""What a person typed that no command understands, said like every other error: one sentence, and what to do.

Rule: one word for one thing. Words of other servers are no aliases here; whoever types one is told ours.
"""

from __future__ import annotations

from typing import Final

from cyclopts import CycloptsError, UnknownOptionError, UnusedCliTokensError

_OURS: Final = {
    "--address": "--host",
    "--bind": "--host",
    "--certfile": "--tls-certificate",
    "--grpc-address": "--host",
    "--http-address": "--host",
    "--keyfile": "--tls-key",
    "--num-replicas": "--replicas",
    "--port": "--http-port (and --grpc-port, --metrics-port)",
    "--ssl-certfile": "--tls-certificate",
    "--ssl-keyfile": "--tls-key",
    "--workers": "--replicas",
}


def sentence(error: CycloptsError) -> str:
    """What is wrong with a command line, in one sentence, and where its options are listed."""
    command = " ".join(("trilith", *(error.command_chain or ())))
    said = " ".join(str(error).split())
    if isinstance(error, UnknownOptionError):
        name = (error.token.keyword or error.token.value).partition("=")[0]
        said = f"there is no option {name}." + said.partition(f"{name}.")[2]
        if name in _OURS:
            said = f"there is no option {name}; here it is {_OURS[name]}."
    elif isinstance(error, UnusedCliTokensError):
        said = f"{' '.join(error.unused_tokens or ())!r} is one argument too many."
    return f"{said} `{command} --help` lists what there is"

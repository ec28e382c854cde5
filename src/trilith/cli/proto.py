"""`trilith proto`: the `.proto` of a service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trilith.errors import InvalidConfig


def proto(
    target: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(alias="-o")] = None,
) -> int:
    """Write the .proto by which a service is reached over gRPC.

    Parameters
    ----------
    target
        The service: `module:Name` or `path/to/app.py:Name`, or `path/to/app.py` with one service.
    output
        The file to write, instead of standard output. If this command made it, the numbers in it hold.
    """
    from trilith.service import load_target, proto_of, spec_of

    text = proto_of(spec_of(load_target(target)), output)
    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise InvalidConfig(f"{output} cannot be written: {error.strerror}") from None
    return 0

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
        The service: `module:Name` or `path/to/app.py:Name`.
    output
        The file to write, instead of standard output. It may exist: the protocol may have changed.
    """
    from trilith.service import load_target, spec_of

    spec = spec_of(load_target(target))
    binding = spec.grpc
    if binding.left_out and not spec.options.proto:
        raise InvalidConfig(f"{target} cannot be written as a .proto: {'; '.join(binding.left_out)}")
    if not binding.text:
        raise InvalidConfig(
            f"{target} has no text: it is served by the descriptor set {spec.options.proto}, which was made of one"
        )
    if output is None:
        sys.stdout.write(binding.text)
        return 0
    try:
        output.write_text(binding.text, "utf-8")
    except OSError as error:
        raise InvalidConfig(f"{output} cannot be written: {error.strerror}") from None
    return 0

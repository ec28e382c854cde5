"""`trilith client`: writes a typed stub file of what a service offers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trilith.errors import InvalidConfig


def client(
    target: Annotated[str | Path, Parameter(show_default=False)],
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    check: Annotated[bool, Parameter(negative="")] = False,
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    tls_ca: Path | None = None,
) -> int:
    """Write a module with the types of a service, and a typed `connect(url)`.

    Parameters
    ----------
    target
        The address of a running service, or `module:Name`, `path/to/app.py:Name`, `path/to/app.py` with one service.
        All give the same file.
    output
        The file; without, standard output.
    check
        Write nothing; say whether the file is what would be written. Exit status 1 when it is not.
    header
        `NAME: VALUE`, sent to the server. May be given several times.
    tls_ca
        PEM file of the authorities that are trusted.

    Returns
    -------
    int
        The exit status.
    """
    from trilith.cli.call import open_methods, read_headers
    from trilith.cli.call_place import Place
    from trilith.service.client import stub_source

    target = str(target)
    if check and output is None:
        raise InvalidConfig("--check compares with a file: name it with -o FILE")
    is_address = "://" in target or target.rpartition(":")[2].split("/")[0].isdecimal()
    place = Place(url=target) if is_address else Place(target=target)
    headers = read_headers(header)
    with open_methods(place, headers=headers, timeout_s=None, tls_ca=tls_ca, models=()) as methods:
        source = stub_source(methods)
    if output is None:
        sys.stdout.write(source)
        return 0
    if check:
        return _compare(output, source, target)
    try:
        output.write_text(source, encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"-o {output}: it cannot be written: {error.strerror}") from error
    sys.stdout.write(f"wrote {output}\n")
    return 0


def _compare(output: Path, source: str, target: str) -> int:
    try:
        found = output.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        found = ""
    if found == source:
        sys.stdout.write(f"{output} is up to date\n")
        return 0
    how = f"`trilith client {target} -o {output}`"
    sys.stdout.write(f"{output} is {'out of date' if found else 'not there'}: {how} writes it\n")
    return 1

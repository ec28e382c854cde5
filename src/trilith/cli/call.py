"""`trilith call`: one call of one method, from a shell.

Exit status: 0 answered; 1 it failed, or nothing answers; 2 what was asked is wrong; 130 interrupted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from trilith.cli.call_completion import complete_argument, complete_target
from trilith.cli.call_items import write_items
from trilith.cli.call_place import Place, read_place, running_servers
from trilith.errors import CallerError, InvalidConfig, SetupError, TrilithError

if TYPE_CHECKING:
    from trilith.service.client import Methods, RawAnswer

_INTERRUPTED: Final = 130


def call(
    target: Annotated[str, Parameter(completer=complete_target)],
    /,
    *arguments: Annotated[str, Parameter(completer=complete_argument)],
    url: str = "",
    output: Annotated[str, Parameter(name=["--output", "-o"], allow_leading_hyphen=True)] = "",
    json: Annotated[bool, Parameter(negative="")] = False,
    header: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    timeout_s: float | None = None,
    tls_ca: Path | None = None,
    models: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
) -> int:
    """Call a method of a service, running or not.

    Parameters
    ----------
    target
        `http://127.0.0.1:8000/read`; or `app.py:Ocr/read`, which runs in this process and serves nothing; or `Ocr/read`
        of a server that runs on this machine.
    arguments
        `NAME=VALUE`: JSON, or text where the method takes text; `NAME=@FILE` for a file, `@-` for standard input,
        `@@` for a text that begins with @. Without a name: all of them, as a JSON object.
    url
        Address of the server, for a target that is a name.
    output
        Write the answer to this file, in the format of its ending where the method offers it; `-` for standard output.
    json
        Print the answer as JSON on one line, and an error too.
    header
        `NAME: VALUE` or `NAME=VALUE`, sent with the call. May be given several times.
    timeout_s
        Seconds that the call may take, instead of the method's own limit.
    tls_ca
        PEM file of the authorities that are trusted.
    models
        For a target in this process: a folder in which `trilith.model(NAME)` looks first. May be repeated.

    Returns
    -------
    int
        The exit status: 0 answered, 1 failed, 2 wrongly asked.
    """
    from trilith.service.client import json_of, read_arguments, wanted_type

    try:
        place = read_place(target, url, {} if url else running_servers())
        with contextlib.ExitStack() as undo:
            if place.target:
                undo.enter_context(_quiet_output())
            methods = undo.enter_context(
                open_methods(place, headers=read_headers(header), timeout_s=timeout_s, tls_ca=tls_ca, models=models)
            )
            if place.service and place.service != methods.name:
                raise InvalidConfig(f"{place.url} serves {methods.name}, not {place.service}")
            operation = methods.find(place.method)
            read = read_arguments(operation, arguments, sys.stdin.buffer.read)
            if operation.streams:
                write_items(methods.stream(operation, read), output, as_json=json)
                return 0
            answer = methods.call(operation, read, accept=wanted_type(operation, output, as_json=json))
        if output:
            _save(answer, output, quiet=json)
        elif json:
            sys.stdout.write(json_of(answer).decode() + "\n")
        else:
            _show(answer)
    except TrilithError as error:
        return _failed(error, as_json=json)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def open_methods(
    place: Place, *, headers: dict[str, str], timeout_s: float | None, tls_ca: Path | None, models: tuple[Path, ...]
) -> Methods:
    """The methods at a place. A context manager."""
    from trilith.service.client import hosted_methods, remote_methods

    if place.url:
        if models:
            raise InvalidConfig(f"--models is for a service in this process; {place.url} has models of its own")
        return remote_methods(place.url, headers=headers, timeout_s=timeout_s, tls_ca=tls_ca)
    from trilith.core.log_options import LogOptions
    from trilith.core.logs import configure_logging
    from trilith.service import load_target

    configure_logging(LogOptions(level="warning"))
    roots = [path.resolve() for path in models]
    return hosted_methods(load_target(place.target), model_roots=roots, timeout_s=timeout_s, headers=headers)


@contextlib.contextmanager
def _quiet_output() -> Iterator[None]:
    """What a service in this process prints goes to standard error where a program reads the answer."""
    if sys.stdout.isatty():
        yield  # a person reads both, and a debugger wants the terminal
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield


def read_headers(given: tuple[str, ...]) -> dict[str, str]:
    """Headers as they stand on a command line. Raises InvalidConfig: one is none."""
    headers = {}
    for text in given:
        colon, equals = text.find(":"), text.find("=")
        at = min(position for position in (colon, equals, len(text)) if position >= 0)
        if not 0 < at < len(text):
            raise InvalidConfig(f"--header takes NAME: VALUE, got {text!r}")
        headers[text[:at].strip()] = text[at + 1 :].strip()
    return headers


def _show(answer: RawAnswer) -> None:
    from trilith.service.client import pieces_of

    pieces = pieces_of(answer)
    for piece in pieces:
        hint = "" if piece.readable else "; -o FILE writes it"
        sys.stdout.write(f"{piece.shown}{hint}\n")


def _save(answer: RawAnswer, output: str, *, quiet: bool) -> None:
    from trilith.service.client import json_of, pieces_of

    pieces = pieces_of(answer)
    if output == "-":
        sys.stdout.buffer.write(pieces[0].content if len(pieces) == 1 else json_of(answer))
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    into_folder = path.is_dir() or output.endswith("/")
    try:
        if into_folder:
            path.mkdir(parents=True, exist_ok=True)
        for number, piece in enumerate(pieces, 1):
            count = f"-{piece.name or number}" if len(pieces) > 1 else ""
            name = (
                f"{answer.operation.method}{count}{piece.ending}" if into_folder else f"{path.stem}{count}{path.suffix}"
            )
            written = path / name if into_folder else path.with_name(name)
            content = answer.body if path.suffix == ".json" and len(pieces) == 1 else piece.content
            written.write_bytes(content)
            if not quiet:
                about = f"{piece.content_type}, {len(content):,} bytes" if piece.readable else piece.shown
                sys.stdout.write(f"wrote {written}: {about}\n")
    except OSError as error:
        raise InvalidConfig(f"-o {output}: {error.filename} cannot be written: {error.strerror}") from error


def _failed(error: TrilithError, *, as_json: bool) -> int:
    if as_json:
        import msgspec

        told = msgspec.json.encode({"error": {"code": error.code, "message": error.message}})
        sys.stderr.write(told.decode() + "\n")
    else:
        sys.stderr.write(f"trilith: {error.message}\n")
    return 2 if isinstance(error, CallerError | SetupError) else 1

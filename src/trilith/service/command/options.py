"""What a user may say about the command of a service: frozen values, checked where they are written."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from trilith.errors import InvalidConfig

PORT: Final = "{port}"
"""Stands for the port in an argument or a variable."""

_PATH: Final = re.compile(r"/|(?:/[A-Za-z0-9_.~-]+)+")
_READY: Final = re.compile(r"/[!-~]*")
_VARIABLE: Final = re.compile(r"[^=\0]+")
_VALUE: Final = re.compile(r"[^\0]*")
_FOLDER: Final = re.compile(r"[^\0]+")
_SIGNAL: Final = re.compile(r"SIG[A-Z0-9]+")
_LONGEST_S: Final = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program that serves HTTP on a port of this machine.

    `trilith.Command(["vllm", "serve", MODEL, "--port", "{port}"], ready="/health")`; a plain list is a command with
    all else as it is unless said.

    Attributes:
        arguments: the program and its arguments. `{port}` in them is the port; no shell reads them. Without any, the
            class says them: `def __command__(self) -> list[str]`.
        environment: variables beside those of the replica; `{port}` is the port. `PORT` is set unless it is here.
        folder: its working folder; None for that of the server.
        port: the port; 0 for a free one, another at each start.
        ready: path whose answer says that it is ready, with a status of 200 to 299; None: any answer at `/` below 500.
        ready_status: the one status that says so.
        start_timeout_s: seconds until it must be ready.
        stop_signal: what asks it to end.
        stop_timeout_s: seconds that it gets for it; then it is killed, with all that it started.
        path: what lies under this path is its; methods of the service go first.
        strip_path: whether it sees paths without that.
    """

    arguments: Sequence[str] = field(default=(), kw_only=False)
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    port: int = 0
    ready: str | None = None
    ready_status: int | None = None
    start_timeout_s: float = 300.0
    stop_signal: str = "SIGTERM"
    stop_timeout_s: float = 5.0
    path: str = "/"
    strip_path: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "arguments", checked_arguments(self.arguments, "cmd"))
        object.__setattr__(self, "environment", _checked_variables(self.environment))
        self._check_values()

    def _check_values(self) -> None:
        _check(self.folder is None or _is_text(self.folder, _FOLDER), "folder must be a path", self.folder)
        _check(_is_whole(self.port, 0, 65535), "port must be a whole number from 0 (a free one) to 65535", self.port)
        _check(
            self.ready is None or _is_text(self.ready, _READY),
            "ready must be a path that begins with '/'",
            self.ready,
        )
        _check(
            self.ready_status is None or _is_whole(self.ready_status, 200, 599),
            "ready_status must be a status from 200 to 599",
            self.ready_status,
        )
        for name in ("start_timeout_s", "stop_timeout_s"):
            _check(
                _is_positive(getattr(self, name)),
                f"{name} must be a number above 0 and at most 86400",
                getattr(self, name),
            )
        _check(
            _is_text(self.stop_signal, _SIGNAL) and self.stop_signal in signal.Signals.__members__,
            "stop_signal must be the name of a signal, such as 'SIGINT'",
            self.stop_signal,
        )
        _check(
            _is_text(self.path, _PATH) and not {".", ".."} & set(self.path.split("/")),
            "path must be '/', or segments of letters, digits, '_', '.', '~' and '-', each behind a '/'",
            self.path,
        )
        _check(isinstance(self.strip_path, bool), "strip_path must be True or False", self.strip_path)


def read_command(given: object) -> Command | None:
    """What `cmd=` says.

    Raises:
        InvalidConfig: it is neither a list of texts nor a `trilith.Command`.
    """
    if given is None or isinstance(given, Command):
        return given
    return Command(arguments=checked_arguments(given, "cmd"))


def checked_arguments(given: Any, where: str) -> tuple[str, ...]:
    """The program and its arguments.

    Raises:
        InvalidConfig: they are no list of texts.
    """
    is_list = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    if not is_list or not all(isinstance(one, str) and "\0" not in one for one in given):
        raise InvalidConfig(
            f"{where} must be a list of texts, the program and its arguments, got {given!r}. No shell reads it:"
            " for one, write ['sh', '-c', '...']"
        )
    if given and not given[0]:
        raise InvalidConfig(f"{where}: the program has no name: {given!r}")
    return tuple(given)


def _check(fine: object, expected: str, got: object) -> None:
    if not fine:
        raise InvalidConfig(f"cmd: {expected}, got {got!r}")


def _checked_variables(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(
        _is_text(name, _VARIABLE) and _is_text(value, _VALUE) for name, value in given.items()
    ):
        raise InvalidConfig(f"cmd: environment must map names to texts, got {given!r}")
    return dict(given)


def _is_text(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= _LONGEST_S

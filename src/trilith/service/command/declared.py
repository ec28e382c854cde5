"""What a command makes of the class that declares it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from trilith.errors import InvalidConfig
from trilith.service.command.options import Command
from trilith.service.names import is_own_path

COMMAND_HOOK: Final = "__command__"
"""The method that says the arguments, where `cmd` has none."""
URL_ATTRIBUTE: Final = "cmd_url"
"""The attribute of an instance with the address of the process."""
RUNNING_ATTRIBUTE: Final = "__trilith_command__"
"""Where an instance has its `RunningCommand`."""


def with_command(target: type, options: Any) -> Any:
    """The options of a service, with a command where its class has `__command__` alone.

    Raises:
        InvalidConfig: it says the arguments twice, or not at all, or its path is the server's own.
    """
    has_hook = hasattr(target, COMMAND_HOOK)
    command = options.cmd
    if not isinstance(command, Command):
        return replace(options, cmd=Command()) if has_hook else options
    if command.arguments and has_hook:
        raise InvalidConfig(f"{target.__name__} says its command twice: by cmd= and by {COMMAND_HOOK}; leave one out")
    if not command.arguments and not has_hook:
        raise InvalidConfig(
            f"{target.__name__}: cmd has no program: write cmd=['PROGRAM', 'ARGUMENT', ...], or a method {COMMAND_HOOK}"
            " that returns such a list"
        )
    if is_own_path(command.path):
        raise InvalidConfig(
            f"{target.__name__}: the path {command.path} belongs to the server itself; give cmd another"
        )
    return options


class _UrlOfNothing:
    """Stands where an instance has no process: it was made by hand."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        raise InvalidConfig(
            f"{self._name}: its command runs where it is served, not with an instance that is made by hand: set"
            f" {URL_ATTRIBUTE} to the address of a program that you have started"
        )


def ask_for_url(target: type) -> None:
    """Has instances without a process say so when they are asked for its address."""
    if not hasattr(target, URL_ATTRIBUTE):
        setattr(target, URL_ATTRIBUTE, _UrlOfNothing(target.__name__))

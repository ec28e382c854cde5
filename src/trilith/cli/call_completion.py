"""What a shell offers after `trilith call`: methods of the servers that run here, and the parameters of one.

Rule: a completion is quick and says nothing. What cannot be asked within a second offers nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilith.cli.call_place import DEFAULT_URL, Place, read_place, running_servers
from trilith.errors import TrilithError

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext

    from trilith.service.client import Operation

_WITHIN_S: Final = 1.0


def complete_target(context: CompletionContext) -> list[tuple[str, str]]:
    """`Name/method` of each method of each running server, or `http://.../method` where an address was begun."""
    found = []
    url = _option(context, "--url")
    begun = context.incomplete
    if "://" in begun:
        url = "/".join(begun.split("/")[:3])
    addresses = [url] if url else list(running_servers()) or [DEFAULT_URL]
    for address in addresses:
        name, operations = _asked(address)
        prefix = address if "://" in begun else name
        found += [(f"{prefix}/{each.method}", each.documentation.partition("\n")[0]) for each in operations]
    return found


def complete_argument(context: CompletionContext) -> list[tuple[str, str]]:
    """`name=` of each parameter of the method that the target names."""
    target = context["target"].raw
    if target is None or "=" in context.incomplete:
        return []
    try:
        place = read_place(target, _option(context, "--url"), running_servers())
    except TrilithError:
        return []
    _, operations = _asked(place.url) if place.url else ("", [])
    return [
        (f"{parameter.name}=", "required" if parameter.required else "")
        for operation in operations
        if place.method in (operation.method, operation.path.lstrip("/"))
        for parameter in operation.parameters
    ]


def _option(context: CompletionContext, name: str) -> str:
    found: Any = context.get(name)
    return (found.raw or "") if found is not None else ""


def _asked(url: str) -> tuple[str, list[Operation]]:
    from trilith.cli.call import open_methods

    try:
        with open_methods(Place(url=url), headers={}, timeout_s=_WITHIN_S, tls_ca=None, models=()) as methods:
            return methods.name, list(methods.operations)
    except TrilithError:
        return "", []

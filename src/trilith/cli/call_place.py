"""What `trilith call TARGET` names: a method, and where it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

from trilith.errors import InvalidConfig

DEFAULT_URL: Final = "http://127.0.0.1:8000"
FORMS: Final = (
    "`http://HOST:PORT/METHOD`, `app.py:Name/METHOD` (runs in this process),"
    " or `Name/METHOD` of a server that runs here"
)
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A method, and where it is.

    Attributes:
        url: the server's address; "" for `target` in this process.
        target: `module:Name` or `path/to/app.py:Name`.
        service: the name that the service must have, "" for any.
        method: its name or path, "" for the only one.
    """

    url: str = ""
    target: str = ""
    service: str = ""
    method: str = ""


def read_place(text: str, url: str, running: dict[str, str]) -> Place:
    """What a target names.

    Args:
        text: as it stood on the command line.
        url: the address to call names at; "" for that of the server that runs it.
        running: what the servers that run on this machine serve, by their addresses.

    Raises:
        InvalidConfig: it is no target, or servers run here and not one, or more than one, serves it.
    """
    if "://" in text or _is_address(text):
        if url:
            raise InvalidConfig(f"{text} is an address already: leave out --url {url}, or write the method alone")
        whole = text if "://" in text else f"http://{text}"
        parts = urlsplit(whole)
        if parts.query or parts.fragment:
            raise InvalidConfig(f"{text}: arguments stand beside the address: {parts.path.lstrip('/')} NAME=VALUE")
        return Place(url=f"{parts.scheme}://{parts.netloc}", method=parts.path.strip("/"))
    target, method = _import_path(text)
    if target:
        if url:
            raise InvalidConfig(f"{text} runs in this process: leave out --url {url}")
        return Place(target=target, method=method)
    names = text.strip("/").split("/")
    if len(names) > 3 or not all(names):
        raise InvalidConfig(f"a target is {FORMS}; got {text!r}")
    service = names[-2] if len(names) > 1 else ""
    return Place(url=url or _running_at(names, running), service=service, method=names[-1])


def _is_address(text: str) -> bool:
    host, colon, rest = text.partition(":")
    return bool(colon) and "/" not in host and rest[:1].isdecimal()


def _import_path(text: str) -> tuple[str, str]:
    """`path/to/app.py:Name`, `METHOD`; nothing for what is no import path."""
    before, colon, after = text.rpartition(":")
    if colon:
        name, _, method = after.partition("/")
        return f"{before}:{name}", method
    before, ending, after = text.partition(".py")
    if ending and (not after or after.startswith("/")):
        return before + ending, after.strip("/")
    return "", ""


def _running_at(names: list[str], running: dict[str, str]) -> str:
    """The address of the one server that serves it; the default one when none runs."""
    wanted = names[:-1]
    found = {address: target for address, target in running.items() if _serves(target, wanted)}
    if len(found) > 1 and not wanted:  # a service that is one function has a method of its own name
        of_that_name = {address: target for address, target in found.items() if _serves(target, names)}
        found = of_that_name or found
    if len(found) > 1:
        raise InvalidConfig(f"several servers run here: {_listed(found)}; say which with --url ADDRESS")
    if running and wanted and not found:
        raise InvalidConfig(
            f"no server that runs here has {'/'.join(wanted)}; there run {_listed(running)}. "
            "For a server elsewhere say --url ADDRESS"
        )
    return next(iter(found), DEFAULT_URL)


def _listed(servers: dict[str, str]) -> str:
    return ", ".join(f"{target} at {address}" for address, target in servers.items())


def _serves(target: str, wanted: list[str]) -> bool:
    place, _, name = target.partition(":")
    if not wanted:
        return bool(name)
    if name != wanted[-1]:
        return False
    return len(wanted) == 1 or wanted[0] in (place, PurePath(place).stem, place.rpartition(".")[2])


def running_servers() -> dict[str, str]:
    """What the servers of this user on this machine serve, by their addresses."""
    from trilith.orchestration import running_targets

    found = {}
    for target, address in running_targets():
        host, _, port = address.rpartition(":")
        found[f"http://{_EVERYWHERE.get(host, host)}:{port}"] = target
    return found

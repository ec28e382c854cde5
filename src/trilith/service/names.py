"""Names that a public method cannot have, since something else has them already.

Rule: what would hide the server's own paths, or be hidden by them, is refused where it is declared. So is what would
take the place of what `trilith.client` and a dependency have of their own.
"""

from __future__ import annotations

from typing import Final

OWN_PATHS: Final = frozenset({"/docs", "/livez", "/metrics", "/openapi.json", "/readyz"})
"""What every server answers itself."""
OWN_FOLDERS: Final = frozenset({"timelines", "v2"})
"""The first parts of paths under which every server answers itself."""
CLIENT_NAMES: Final = frozenset({"close", "with_timeout"})
"""Public attributes of `trilith.client`."""


def is_own_path(route: str) -> bool:
    """Whether the server answers that path itself."""
    return route in OWN_PATHS or route.split("/")[1] in OWN_FOLDERS


def is_client_name(method: str) -> bool:
    """Whether a method of that name would hide something that the client needs."""
    return method in CLIENT_NAMES or (method.startswith("_") and method != "__call__")

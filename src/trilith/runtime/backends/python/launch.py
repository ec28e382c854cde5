"""How the process of a Python model is started: which Python, with whose packages, in which environment variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_MODULE: Final = "trilith.runtime.backends.python.worker"
_BEGIN: Final = (
    "import runpy, site, sys; "
    "[site.addsitedir(folder) for folder in {own!r}]; "
    "sys.path.extend({servers!r}); "
    "runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A way to start processes.

    Attributes:
        command: what is run; a process' own arguments come behind it.
        variables: environment variables that differ from the server's.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def plain_launch(python: str) -> Launch:
    """By a Python that finds Trilith itself."""
    return Launch(command=(python, "-P", "-m", _MODULE))


def launch_with(
    python: str,
    servers: Sequence[str],
    *,
    own: Sequence[str] = (),
    bare: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Launch:
    """By a Python that does not know the server's packages, which come behind its own.

    Args:
        python: which.
        servers: folders of the server's packages.
        own: further folders of packages, which come before those.
        bare: whether the packages that the Python itself would find are left out.
        variables: of its environment.
    """
    code = _BEGIN.format(own=list(own), servers=list(servers), module=_MODULE)
    options = ("-P", "-S") if bare else ("-P",)
    return Launch(command=(python, *options, "-c", code), variables=variables or {})

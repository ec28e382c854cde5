"""Where the Trilith that runs was installed from, as a requirement that pip takes.

Rule: a project that is made gets what runs here: the folder of a clone, the file or address that pip was given, or else
    the name alone, for an index.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Final

_NAME: Final = "trilith"
_NOTE: Final = (
    "# Trilith, from where it was installed on the machine that made this file; elsewhere write its place there.\n"
)


def located(requirements: str, source: str) -> str:
    """A `requirements.txt` whose line of Trilith says where it is; `source` "": the text as it is.

    The form is PEP 508's direct reference, `trilith[ocr] @ file:///home/ann/trilith`.
    """
    if not source:
        return requirements
    lines = []
    for line in requirements.splitlines(keepends=True):
        name = line.strip()
        if name == _NAME or name.startswith(f"{_NAME}["):
            line = f"{_NOTE}{name} @ {source}\n"
        lines.append(line)
    return "".join(lines)


def installed_source(package: Path) -> str:
    """The URL that pip installs the running Trilith from; "" for what an index gave.

    Args:
        package: the folder of the package that runs.
    """
    checkout = package.parents[1]
    if package.parent.name == "src" and (checkout / "pyproject.toml").is_file():
        return checkout.as_uri()
    try:
        told = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return ""
    return direct_url(told) if told else ""


def direct_url(told: str) -> str:
    """The URL in a `direct_url.json` (PEP 610), as a requirement writes it."""
    known = json.loads(told)
    vcs = known.get("vcs_info")
    return f"{vcs['vcs']}+{known['url']}@{vcs['commit_id']}" if vcs else str(known["url"])

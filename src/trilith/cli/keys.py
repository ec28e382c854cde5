"""`trilith keys`: make API keys, and look at a file of them."""

from __future__ import annotations

import datetime
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trilith.errors import InvalidConfig

if TYPE_CHECKING:
    from trilith.orchestration import KeyRing


def new(
    name: str,
    /,
    *,
    scope: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    file: Path | None = None,
    expires_days: int | None = None,
    requests_per_s: float | None = None,
    burst: int | None = None,
    concurrency: int | None = None,
    max_body_mb: float | None = None,
) -> int:
    """Make an API key: it is printed once, and kept nowhere; the file of the server gets its digest.

    Parameters
    ----------
    name
        Whose key it is, as metrics and logs say.
    scope
        What it opens: `*`, `Ocr.read`, `Ocr`, `model:ocr-*`, `/v2/*`. May be given several times.
    file
        The file of keys to add it to, which is made if need be; without it the entry is printed.
    expires_days
        Days until it ends.
    requests_per_s
        How many requests a second it allows, on average.
    burst
        How many of them at once, after a pause.
    concurrency
        How many requests it allows at a time.
    max_body_mb
        The longest body that it allows, in MiB.
    """
    from trilith.orchestration import new_key

    if not scope:
        raise InvalidConfig("--scope says what the key opens: `--scope Ocr.read`, or `--scope '*'` for everything")
    if expires_days is not None and expires_days < 1:
        raise InvalidConfig(f"--expires-days must be at least 1, got {expires_days}")
    day = None if expires_days is None else datetime.datetime.now(datetime.UTC).date()
    key, entry = new_key(
        name,
        scopes=list(scope),
        expires=None if day is None or expires_days is None else day + datetime.timedelta(days=expires_days),
        requests_per_s=requests_per_s,
        burst=burst,
        concurrency=concurrency,
        max_body_mb=max_body_mb,
    )
    if file is None:
        sys.stdout.write(f"{key}\n")
        sys.stderr.write(f"The key is on the line above, and nowhere else. Its entry for the file of keys:\n\n{entry}")
    else:
        _add(file, entry)
        sys.stdout.write(f"{key}\n")
        sys.stderr.write(f"trilith: {file} has the key's digest; a running server reads it at SIGHUP\n")
    return 0


def list_(file: Path, /) -> int:
    """List the keys of a file: names, scopes and limits.

    Parameters
    ----------
    file
        The file of keys.
    """
    from rich.console import Console
    from rich.table import Table

    ring = _ring(file)
    table = Table("key", "opens", "ends", "requests/s", "at a time", "body", box=None)
    for rule in ring.rules:
        limits = rule.limits
        ends = rule.expires_at
        table.add_row(
            rule.name,
            ", ".join(rule.scopes),
            "" if ends is None else datetime.datetime.fromtimestamp(ends, datetime.UTC).strftime("%Y-%m-%d %H:%M"),
            "" if limits.requests_per_s is None else f"{limits.requests_per_s:g}",
            "" if limits.concurrency is None else str(limits.concurrency),
            "" if limits.max_body_bytes is None else f"{limits.max_body_bytes / (1 << 20):g} MiB",
        )
    Console().print(table)
    return 0


def _ring(file: Path) -> KeyRing:
    from trilith.orchestration import read_key_file

    return read_key_file(file)


def _add(file: Path, entry: str) -> None:
    """Adds an entry at the end of the list of keys. The file is replaced in one step, or left as it is."""
    from trilith.orchestration import read_key_text

    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if text.strip():
        _ring(file)
    changed = _with_entry(text, entry)
    try:
        read_key_text(changed, source=str(file))
    except InvalidConfig as error:
        raise InvalidConfig(
            f"the key was not added to {file}, which would then be wrong: {error.message}. Without --file the entry is"
            " printed, to be put there by hand"
        ) from error
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.resolve().parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as beside:
        beside.write(changed)
        beside.flush()
        os.fsync(beside.fileno())
    Path(name).chmod(mode)
    Path(name).replace(file.resolve())


def _with_entry(text: str, entry: str) -> str:
    """The text of a file of keys with one more behind the others, in the layout that it has."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    begin = next((at for at, line in enumerate(lines) if line.startswith("keys:")), None)
    if begin is None:
        return "".join([*lines, "keys:\n", entry])
    if lines[begin].split("#")[0].split() == ["keys:", "[]"]:
        lines[begin] = "keys:\n"
    first = next((line for line in lines[begin + 1 :] if line.lstrip(" ").startswith("- ")), "  - ")
    indent = " " * (len(first) - len(first.lstrip(" ")))
    end = next(
        (at for at in range(begin + 1, len(lines)) if not lines[at].startswith((" ", "-", "#", "\n"))), len(lines)
    )
    added = [indent + line[2:] for line in entry.splitlines(keepends=True)]
    return "".join([*lines[:end], *added, *lines[end:]])

"""Where running servers leave word of themselves: a private folder of this user, one small file a server.

Rule: the folder is the user's alone (mode 0700, checked); a file whose process is gone is removed when it is seen.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import msgspec

from trilith.errors import SetupError


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one server says of itself. Addresses are `host:port`."""

    pid: int
    target: str
    started_at: float
    http: str
    grpc: str
    metrics: str


def private_folder() -> Path:
    """The folder, made when it is missing.

    Raises:
        SetupError: something else, or somebody else's, lies at its path.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "trilith" if base else Path(tempfile.gettempdir()) / f"trilith-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SetupError(f"{folder} must be a folder of the user {os.getuid()}; remove it, or set XDG_RUNTIME_DIR")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def write_record(record: ServerRecord) -> Path:
    """Leaves word of a server; the caller removes the file at the end."""
    path = private_folder() / f"server-{record.pid}.json"
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(record))
    partial.rename(path)
    return path


def read_records() -> list[ServerRecord]:
    """The servers of this user that run now, oldest first. Files of servers that are gone are removed."""
    records = []
    for path in private_folder().glob("server-*.json"):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=ServerRecord)
        except (OSError, msgspec.MsgspecError):
            path.unlink(missing_ok=True)
            continue
        if Path(f"/proc/{record.pid}").exists():
            records.append(record)
        else:
            path.unlink(missing_ok=True)
    return sorted(records, key=lambda record: record.started_at)

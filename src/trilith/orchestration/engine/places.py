"""Where running servers leave word of themselves: a private folder of this user, one small file a server.

Rule: the folder is the user's alone (mode 0700, checked); a file whose process is gone is removed when it is seen.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from trilith.errors import SetupError

SOCKET_NAME: Final = "gateway.sock"
_LONGEST_SOCKET_PATH: Final = 107


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one server says of itself. Addresses are `host:port`.

    `born`: as `born` says it, since numbers of processes are given again.
    """

    pid: int
    born: str
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
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise SetupError(f"cannot make {folder} ({error.strerror}); set XDG_RUNTIME_DIR to another folder") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise SetupError(f"{folder} must be a folder of the user {os.getuid()}; remove it, or set XDG_RUNTIME_DIR")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
    return folder


def make_peers_folder() -> Path:
    """A new folder for the sockets of this server. Folders of servers that are gone are removed.

    Raises:
        SetupError: it cannot be made, or its path is too long for a socket's.
    """
    base = private_folder()
    for old in base.glob("peers-*"):
        owner = old.name.split("-")[1]
        if not (owner.isdigit() and Path(f"/proc/{owner}").exists()):
            shutil.rmtree(old, ignore_errors=True)
    folder = base / f"peers-{os.getpid()}"
    if len(str(folder / SOCKET_NAME).encode()) > _LONGEST_SOCKET_PATH:
        raise SetupError(f"{base} is too long a path for a socket; set XDG_RUNTIME_DIR to a shorter one")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that had this number before
    folder.mkdir(mode=0o700)
    return folder


def make_uploads_folder() -> Path:
    """A new folder for what callers of this server upload. Those of servers that are gone are removed.

    It lies with the temporary files: the folder of sockets may be memory.

    Raises:
        SetupError: it cannot be made.
    """
    base = Path(tempfile.gettempdir())
    for old in base.glob("trilith-uploads-*"):
        owner = old.name.split("-")[2]
        if not (owner.isdigit() and Path(f"/proc/{owner}").exists()):
            shutil.rmtree(old, ignore_errors=True)  # another user's stays
    try:
        return Path(tempfile.mkdtemp(prefix=f"trilith-uploads-{os.getpid()}-", dir=base))
    except OSError as error:
        raise SetupError(f"cannot make a folder in {base}: {error.strerror}; set TMPDIR to another folder") from error


def born(process_id: int) -> str:
    """When a process began, in the kernel's ticks; "" when there is no such process."""
    try:
        found = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:  # it has ended
        return ""
    return found.rpartition(")")[2].split()[19]


def write_record(record: ServerRecord) -> Path:
    """Leaves word of a server; the caller removes the file at the end. Files of servers that are gone are removed."""
    read_records()
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
        if born(record.pid) == record.born:
            records.append(record)
        else:
            path.unlink(missing_ok=True)
    return sorted(records, key=lambda record: record.started_at)

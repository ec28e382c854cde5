"""Where running servers leave word of themselves: a private folder of this user, one small file a server.

Rule 1: the folder is the user's alone (mode 0700, checked).
Rule 2: whoever makes something here holds it (flock) for as long as it lives, and the kernel lets go of it at the end.
    What nobody holds is removed when it is seen. Numbers of processes would not do: containers that share a folder
    have the same ones, and do not see each other's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from trilith.errors import SetupError

SOCKET_NAME: Final = "gateway.sock"
_LONGEST_SOCKET_PATH: Final = 107


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one server says of itself. Addresses are `host:port`; `tls`: that of HTTP speaks TLS; `folder`: where it was
    started, which its target is relative to; `options`: those of a copy beside it, None when it does not say;
    `settings`: values by path, which it was started with."""

    pid: int
    target: str
    started_at: float
    http: str
    grpc: str
    metrics: str
    tls: bool = False
    folder: str = ""
    options: tuple[str, ...] | None = None
    settings: dict[str, Any] = {}


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


@contextlib.contextmanager
def peers_folder() -> Iterator[Path]:
    """A new folder for the sockets of this server, removed at the end. Those of servers that are gone are removed.

    Raises:
        SetupError: it cannot be made, or its path is too long for a socket's.
    """
    with _held_folder(private_folder(), "p-", advice="set XDG_RUNTIME_DIR to another folder") as folder:
        if len(str(folder / SOCKET_NAME).encode()) > _LONGEST_SOCKET_PATH:
            raise SetupError(f"{folder.parent} is too long a path for a socket; set XDG_RUNTIME_DIR to a shorter one")
        yield folder


def uploads_folder() -> contextlib.AbstractContextManager[Path]:
    """A new folder for what callers of this server upload, removed at the end. Those of servers that are gone are, too.

    It lies with the temporary files: the folder of sockets may be memory.

    Raises:
        SetupError: it cannot be made.
    """
    return _held_folder(Path(tempfile.gettempdir()), "trilith-uploads-", advice="set TMPDIR to another folder")


@contextlib.contextmanager
def _held_folder(base: Path, prefix: str, *, advice: str) -> Iterator[Path]:
    for old in base.glob(f"{prefix}*"):
        with _taken(old) as is_left:
            if is_left:
                shutil.rmtree(old, ignore_errors=True)
    try:
        folder, held = _new(lambda: tempfile.mkdtemp(prefix=prefix, dir=base))
    except OSError as error:
        raise SetupError(f"cannot make a folder in {base}: {error.strerror}; {advice}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


@contextlib.contextmanager
def server_record(record: ServerRecord) -> Iterator[Callable[[str], None]]:
    """Leaves word of a server, until the end; what it yields says the target anew.

    Files of servers that are gone are removed.

    Raises:
        SetupError: it cannot be written.
    """
    read_records()
    folder = private_folder()

    def say(target: str) -> None:
        with contextlib.suppress(OSError):  # the disk is full: it says what it said
            path.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, target=target)))

    try:
        path, held = _new(lambda: _closed(tempfile.mkstemp(prefix="server-", suffix=".json", dir=folder)))
        path.write_bytes(msgspec.json.encode(record))
    except OSError as error:
        raise SetupError(
            f"cannot write into {folder}: {error.strerror}; set XDG_RUNTIME_DIR to another folder"
        ) from error
    try:
        yield say
    finally:
        path.unlink(missing_ok=True)
        os.close(held)


def read_records() -> list[ServerRecord]:
    """The servers of this user that run now, oldest first. Files of servers that are gone are removed."""
    records = []
    for path in private_folder().glob("server-*.json"):
        with _taken(path) as is_left:
            if is_left:
                path.unlink(missing_ok=True)
                continue
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # it goes, or is being written
            records.append(msgspec.json.decode(path.read_bytes(), type=ServerRecord))
    return sorted(records, key=lambda record: record.started_at)


def _new(make: Callable[[], str]) -> tuple[Path, int]:
    """Makes something and holds it; the descriptor that does."""
    while True:
        path = Path(make())
        try:
            held = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # another one has found it before it was held
            continue
        fcntl.flock(held, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):  # removed before it was held: the next is tried
            if os.path.samestat(os.fstat(held), path.stat()):
                return path, held
        os.close(held)


def _closed(made: tuple[int, str]) -> str:
    os.close(made[0])
    return made[1]


@contextlib.contextmanager
def _taken(path: Path) -> Iterator[bool]:
    """Holds what nobody holds, within; False when somebody does, or it is another user's, or has gone."""
    try:
        held = os.open(path, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(held)

"""Where fetched files live: by the hash of their content, so that one file is stored once and never changes.

    ROOT/objects/SHA256/NAME         the file, read-only
    ROOT/objects/SHA256/NAME.json    its record: size and modification time at the moment when the hash was checked
    ROOT/wheels/NAME-VERSION/        the wheel last fetched, for the other files in it; removed by a later fetch
    ROOT/locks/                      one lock file for each package version

Rule 1: a file appears under its final name complete and verified, or not at all (write beside it, then rename).
Rule 2: using a cached file costs one stat. It is hashed again only when its size or time differs from its record.
Rule 3: locks are `flock`: the kernel releases them when their process dies, so a crash leaves nothing to clean up.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

_CHUNK_BYTES: Final = 1 << 20
_WHEEL_KEPT_S: Final = 24 * 3600.0


class _Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    size_bytes: int
    modified_ns: int
    source: str


def cache_root(environment: Mapping[str, str] | None = None) -> Path:
    """The folder of fetched models.

    `$TRILITH_CACHE/models`, else `$XDG_CACHE_HOME/trilith/models`, else `~/.cache/trilith/models`. Read when called.
    """
    variables = os.environ if environment is None else environment
    if own := variables.get("TRILITH_CACHE"):
        return Path(own).expanduser() / "models"
    if shared := variables.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "trilith" / "models"
    return Path.home() / ".cache" / "trilith" / "models"


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file in lower-case hexadecimal digits.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileCache:
    """A content-addressed folder of files, safe to share between processes and threads."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, sha256: str, name: str) -> Path | None:
        """The cached file, or None when it is absent or damaged. `store` replaces a damaged one."""
        path = self._object(sha256, name)
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        record = self._read_record(path)
        if record is not None and (record.size_bytes, record.modified_ns) == (status.st_size, status.st_mtime_ns):
            return path
        if sha256_of(path) == sha256:  # copied, restored or touched: the content is what counts
            self._write_record(path, record.source if record is not None else "")
            return path
        return None

    def store(self, content: IO[bytes], *, sha256: str, name: str, source: str) -> str | None:
        """Copies `content` in when its hash is the one expected.

        Returns:
            None when it is stored, otherwise the hash that the content has.

        Raises:
            OSError: the cache cannot be written.
        """
        path = self._object(sha256, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                while chunk := content.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    file.write(chunk)
                os.fsync(file.fileno())
            if digest.hexdigest() != sha256:
                return digest.hexdigest()
            Path(temporary).chmod(0o444)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        self._write_record(path, source)
        return None

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Holds the lock called `key` against other threads and processes; waits for it."""
        with self._lock_file(key) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def locked(self, key: str) -> bool:
        """Whether someone holds the lock called `key` at this moment. For telling people, not for deciding."""
        with self._lock_file(key) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def wheel_folder(self, key: str) -> Path:
        """The folder that holds the wheel called `key`, created. Call it with the lock of `key` held."""
        folder = self.root / "wheels" / key
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def prune_wheels(self, *, keep: str, now: float) -> None:
        """Removes the wheels that were fetched more than a day before `now` (seconds since the epoch)."""
        for folder in (self.root / "wheels").glob("*"):
            with contextlib.suppress(FileNotFoundError):  # another process prunes too
                if folder.name != keep and now - folder.stat().st_mtime > _WHEEL_KEPT_S:
                    shutil.rmtree(folder)

    def _object(self, sha256: str, name: str) -> Path:
        return self.root / "objects" / sha256 / name

    def _lock_file(self, key: str) -> IO[bytes]:
        folder = self.root / "locks"
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / f"{key}.lock").open("ab")

    def _read_record(self, path: Path) -> _Record | None:
        try:
            return msgspec.json.decode(_record_path(path).read_bytes(), type=_Record)
        except (FileNotFoundError, msgspec.DecodeError):
            return None  # the file is hashed again, and its record written anew

    def _write_record(self, path: Path, source: str) -> None:
        status = path.stat()
        record = _Record(size_bytes=status.st_size, modified_ns=status.st_mtime_ns, source=source)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(record))
        Path(temporary).replace(_record_path(path))


def _record_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")

"""The model repositories of a runtime: folders of this machine, and those behind a URL (`s3://bucket/models`).

What lies behind a URL is mirrored to a folder of the cache: names and configurations when models are listed, the files
of one model when it is loaded. Files are kept by the SHA-256 of their content, and linked into the mirror.

Rule 1: a file appears in the mirror whole or not at all, and what has gone there goes here.
Rule 2: a file is fetched again only when its size, its time or its tag there has changed.
Rule 3: this is the one file that knows fsspec; it is imported when a URL is used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from trilith.errors import SetupError, UnknownReference
from trilith.runtime.folders import find_model_folders, find_models
from trilith.runtime.load_run import LoadRun
from trilith.runtime.repository import PBTXT, YAML

_log: Final = logging.getLogger("trilith.runtime")
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CHUNK_BYTES: Final = 1 << 20
_LOOK_S: Final = 0.2  # while another thread works on the mirror
_FETCHING: Final = ".fetching-"
_ABANDONED_S: Final = 3600.0
_IDENTITY: Final = ("size", "mtime", "LastModified", "last_modified", "updated", "created", "ETag", "etag", "md5Hash")


class Roots:
    """Model repositories, by their folders or URLs.

    Args:
        repositories: in order.
        cache: the folder of mirrors; made when it is needed.
    """

    def __init__(self, repositories: Sequence[str | Path], cache: Path) -> None:
        self._remotes: list[_Remote] = []
        self._folders: list[Path] = []
        for repository in repositories:
            if is_remote(str(repository)):
                remote = _Remote(str(repository), cache)
                self._remotes.append(remote)
                self._folders.append(remote.mirror)
            else:
                self._folders.append(Path(repository))
        self._shown = [str(repository) for repository in repositories]
        self._told: set[tuple[str, str]] = set()  # what was said already of what is left out

    def __str__(self) -> str:
        """For messages."""
        return ", ".join(self._shown) or "(none)"

    def find(self, *, whole: bool = False) -> dict[str, list[Path]]:
        """The model folders by name; see `find_models`. Of remote ones the names and configurations, or the `whole`.

        Raises:
            UnknownReference: a repository is none, or cannot be reached.
            SetupError: there is no room for what must be fetched.
        """
        for remote in self._remotes:
            for name, why in remote.list(LoadRun(), whole=whole).items():
                self._leave_out(f"the model '{name}' of {remote.url}", why)
        return find_models(self._folders, lambda folder, why: self._leave_out(_shown(folder), why))

    def _leave_out(self, what: str, why: str) -> None:
        """Says so once: models are looked for again and again."""
        if (what, why) not in self._told:
            self._told.add((what, why))
            _log.error("%s is left as it is: %s", what, why)

    def holds(self, name: str) -> bool:
        """Whether there is a model of that name, as far as is known without asking what is remote."""
        return bool(find_model_folders(name, self._folders))

    def fetch(self, name: str, run: LoadRun | None = None) -> list[Path]:
        """The folders of one model with all its files. `run`: the load that wants them; told of each piece that comes.

        Raises:
            UnknownReference, SetupError: as above.
        """
        for remote in self._remotes:
            remote.list(run or LoadRun(), whole=False, model=name)
        return find_model_folders(name, self._folders)


def _shown(folder: Path) -> str:
    return str(folder).encode(errors="backslashreplace").decode()


def is_remote(repository: str) -> bool:
    """Whether it is a URL and not a folder."""
    return "://" in repository


class _Remote:
    """One repository behind a URL, and its mirror."""

    def __init__(self, url: str, cache: Path) -> None:
        key = hashlib.sha256(url.encode()).hexdigest()[:16]
        self.url = self._url = url.rstrip("/")
        self._blobs = cache / key / "blobs"
        self.mirror = cache / key / "models"
        self._manifest = cache / key / "manifest.json"
        self._fetched: dict[str, tuple[str, str]] = {}  # identity there and digest, by path below the repository
        self._written: dict[str, tuple[str, str]] | None = None  # what the manifest says; None until it is read
        self._lock = threading.Lock()
        self._worker: LoadRun | None = None  # of whoever holds it

    def list(self, run: LoadRun, *, whole: bool, model: str | None = None) -> dict[str, str]:
        """Brings the mirror up to date: all names and configurations, and the files of one model or of all.

        What cannot be fetched of other models than `model` leaves those as they are; why, by name.
        """
        failed: dict[str, str] = {}
        with self._alone(run):
            there = self._listing()
            try:
                self._remember()
                self._remove_what_is_gone(there)
                for path, identity in there.items():
                    name, _, rest = path.partition("/")
                    wanted = whole or name == model or rest in (PBTXT, YAML)
                    try:
                        (self.mirror / path).parent.mkdir(parents=True, exist_ok=True)
                        if wanted and name not in failed and self._fetched.get(path, ("",))[0] != identity:
                            self._fetched[path] = (identity, self._fetch(path, run))
                    except (OSError, UnknownReference) as error:
                        if name == model or (isinstance(error, OSError) and error.errno in _NO_ROOM):
                            raise
                        failed[name] = str(error)
                self._remove_unused_blobs()
                self._write_manifest()
            except OSError as error:
                if error.errno in _NO_ROOM:
                    raise SetupError(
                        f"{self._url}: no room for the models in {self.mirror.parent}; free some, or name another "
                        "folder by TRILITH_CACHE"
                    ) from error
                raise SetupError(f"{self._url}: cannot be mirrored to {self.mirror.parent}: {error}") from error
        return failed

    def _listing(self) -> dict[str, str]:
        """Each file's identity, by its path below the repository."""
        try:
            system, base = self._system()
            system.invalidate_cache()
            found: Mapping[str, Mapping[str, Any]] = system.find(base, detail=True)
        except (SetupError, UnknownReference):
            raise
        except Exception as error:
            raise UnknownReference(f"the model repository {self._url} cannot be listed: {error}") from error
        if not found and not system.isdir(base):
            raise UnknownReference(f"the model repository {self._url} is not a folder")
        listing = {}
        for path, about in found.items():
            relative = path.removeprefix(base).lstrip("/")
            parts = relative.split("/")
            if len(parts) > 1 and ".." not in parts and not any(part.startswith(".") for part in parts):
                listing[relative] = repr([str(about[key]) for key in _IDENTITY if about.get(key) is not None])
        self.mirror.mkdir(parents=True, exist_ok=True)
        return listing

    def _system(self) -> tuple[Any, str]:
        try:
            import fsspec
        except ImportError as error:
            raise UnknownReference(f"{self._url} needs fsspec: pip install 'trilith[remote]'") from error
        try:
            system, base = fsspec.core.url_to_fs(self._url)
        except (ImportError, ValueError) as error:
            raise UnknownReference(f"{self._url}: {error}; `trilith[s3]` brings what s3:// needs") from error
        return system, str(base).rstrip("/")

    @contextlib.contextmanager
    def _alone(self, run: LoadRun) -> Iterator[None]:
        """Waits until no other thread works on the mirror. That the other one gets on is progress of those who wait."""
        while not self._lock.acquire(timeout=_LOOK_S):
            run.check()
            worker = self._worker
            if worker is not None:
                run.heard_at = max(run.heard_at, worker.heard_at)
        try:
            self._worker = run
            yield
        finally:
            self._worker = None
            self._lock.release()

    def _fetch(self, path: str, run: LoadRun) -> str:
        """Downloads one file; its digest."""
        system, base = self._system()
        self._blobs.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_FETCHING, dir=self._blobs)
        try:
            with os.fdopen(handle, "wb") as local:
                try:
                    remote = system.open(f"{base}/{path}", "rb")
                except Exception as error:
                    raise UnknownReference(f"{self._url}/{path}: cannot be fetched: {error}") from error
                with remote:
                    digest = _copy(remote, local, f"{self._url}/{path}", run)
            blob = self._blobs / digest
            Path(temporary).replace(blob)
            link = self.mirror / path
            link.with_name(f".{link.name}.new").unlink(missing_ok=True)
            link.with_name(f".{link.name}.new").hardlink_to(blob)
            link.with_name(f".{link.name}.new").replace(link)
            link.with_name(f".{link.name}.new").unlink(missing_ok=True)  # two links to one file are not replaced
        finally:
            Path(temporary).unlink(missing_ok=True)
        return digest

    def _remember(self) -> None:
        """What an earlier process fetched."""
        if self._written is not None:
            return
        self._written = {}
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):  # a manifest that is none is written anew
            self._written = msgspec.json.decode(self._manifest.read_bytes(), type=dict[str, tuple[str, str]])
        self._fetched = {path: known for path, known in self._written.items() if (self.mirror / path).is_file()}

    def _write_manifest(self) -> None:
        if self._written != self._fetched:
            new = self._manifest.with_suffix(f".{os.getpid()}")
            new.write_bytes(msgspec.json.encode(self._fetched))
            new.replace(self._manifest)
            self._written = dict(self._fetched)

    def _remove_what_is_gone(self, there: Mapping[str, str]) -> None:
        folders = {parent.as_posix() for path in there for parent in Path(path).parents}
        for found in sorted(self.mirror.rglob("*"), reverse=True):  # children first
            relative = found.relative_to(self.mirror).as_posix()
            if found.is_dir():
                if relative not in folders:
                    with contextlib.suppress(OSError):  # something that is not ours lies in it
                        found.rmdir()
            elif relative not in there:
                found.unlink(missing_ok=True)
                self._fetched.pop(relative, None)

    def _remove_unused_blobs(self) -> None:
        used = {digest for _, digest in self._fetched.values()}
        if self._blobs.is_dir():
            for blob in self._blobs.iterdir():
                if blob.name not in used and not self._may_be_another_s(blob):
                    blob.unlink(missing_ok=True)

    def _may_be_another_s(self, blob: Path) -> bool:
        """Whether another process may be fetching it."""
        try:
            return blob.name.startswith(_FETCHING) and time.time() - blob.stat().st_mtime < _ABANDONED_S
        except FileNotFoundError:
            return True


def _copy(source: IO[bytes], destination: IO[bytes], shown: str, run: LoadRun) -> str:
    """Copies a remote file; its digest."""
    digest, copied, expected = hashlib.sha256(), 0, getattr(source, "size", None)
    while chunk := _read(source, shown):
        run.check()
        run.heard()
        digest.update(chunk)
        destination.write(chunk)
        copied += len(chunk)
    if isinstance(expected, int) and copied != expected:
        raise UnknownReference(f"{shown}: cannot be fetched: {copied} bytes of {expected} came")
    return digest.hexdigest()


def _read(source: IO[bytes], shown: str) -> bytes:
    try:
        return source.read(_CHUNK_BYTES)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise  # of a file system that keeps what it reads in files of its own
        raise UnknownReference(f"{shown}: cannot be fetched: {str(error) or type(error).__name__}") from error

"""The model repositories of a runtime: folders of this machine, and those behind a URL (`s3://bucket/models`).

What lies behind a URL is mirrored to a folder of the cache: names and configurations when models are listed, the files
of one model when it is loaded. Files are kept by the SHA-256 of their content, and linked into the mirror.

Rule 1: a file appears in the mirror whole or not at all, and what has gone there goes here.
Rule 2: a file is fetched again only when its size, its time or its tag there has changed.
Rule 3: this is the one file that knows fsspec; it is imported when a URL is used.
Rule 4: listing a repository never waits for the files of a model, and no model waits for those of another. The mirror
    is shared by all processes of a user.
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
from trilith.runtime.file_locks import FileLocks, Held
from trilith.runtime.folders import find_model_folders, find_models
from trilith.runtime.load_run import LoadRun
from trilith.runtime.naming import key_of, name_of, namespace_of
from trilith.runtime.repository import PBTXT, YAML

_log: Final = logging.getLogger("trilith.runtime")
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CHUNK_BYTES: Final = 1 << 20
_LISTING: Final = ""  # the name of its lock, which no model has
_FETCHING: Final = ".fetching-"
_NEW: Final = ".new"
_ABANDONED_S: Final = 3600.0
_IDENTITY: Final = ("size", "mtime", "LastModified", "last_modified", "updated", "created", "ETag", "etag", "md5Hash")


class Roots:
    """Model repositories, by their folders or URLs.

    Args:
        repositories: in order.
        cache: the folder of mirrors; made when it is needed.
        namespaces: whether each repository is a namespace of its own; see `naming`.

    Attributes:
        namespaces: as given.
    """

    def __init__(self, repositories: Sequence[str | Path], cache: Path, *, namespaces: bool = False) -> None:
        self.namespaces = namespaces
        self._remotes: dict[str, _Remote] = {}
        self._folders: list[Path] = []
        given = [str(repository) for repository in repositories]
        self._shown = list(dict.fromkeys(given)) if namespaces else given
        for repository in self._shown:
            if is_remote(repository):
                remote = self._remotes[repository] = _Remote(repository, cache)
                self._folders.append(remote.mirror)
            else:
                self._folders.append(Path(repository))
        self._told: set[tuple[str, str]] = set()  # what was said already of what is left out

    def __str__(self) -> str:
        """For messages."""
        return ", ".join(self._shown) or "(none)"

    def find(self, *, whole: bool = False) -> dict[str, list[Path]]:
        """The model folders by key; see `find_models`. Of remote ones the names and configurations, or the `whole`.

        Raises:
            UnknownReference: a repository is none, or cannot be reached.
            SetupError: there is no room for what must be fetched.
        """
        for remote in self._remotes.values():
            for name, why in remote.list(LoadRun(), whole=whole).items():
                self._leave_out(f"the model '{name}' of {remote.url}", why)
        if not self.namespaces:
            return find_models(self._folders, lambda folder, why: self._leave_out(_shown(folder), why))
        return {
            key_of(namespace, name): folders
            for namespace, root in zip(self._shown, self._folders, strict=True)
            for name, folders in find_models([root], lambda folder, why: self._leave_out(_shown(folder), why)).items()
        }

    def _leave_out(self, what: str, why: str) -> None:
        """Says so once: models are looked for again and again."""
        if (what, why) not in self._told:
            self._told.add((what, why))
            _log.error("%s is left as it is: %s", what, why)

    def holds(self, name: str) -> bool:
        """Whether there is a model of that name, as far as is known without asking what is remote."""
        return bool(find_model_folders(name, self._folders))

    def fetch(self, key: str, run: LoadRun | None = None) -> list[Path]:
        """The folders of one model with all its files. `run`: the load that wants them; told of each piece that comes.

        Raises:
            UnknownReference, SetupError: as above.
        """
        name, namespace = name_of(key), namespace_of(key)
        searched = [at for at, shown in enumerate(self._shown) if not self.namespaces or shown == namespace]
        for at in searched:
            if (remote := self._remotes.get(self._shown[at])) is not None:
                remote.list(run or LoadRun(), whole=False, model=name)
        return find_model_folders(name, [self._folders[at] for at in searched])


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
        self._written: dict[str, tuple[str, str]] = {}  # what the manifest said when it was last read or written
        self._read = (0, 0)  # which manifest that was
        self._there: dict[str, str] = {}  # the last listing
        self._locks = FileLocks(cache / key / "locks")
        self._lock = threading.Lock()  # held for moments: of what this process knows of the mirror

    def list(self, run: LoadRun, *, whole: bool, model: str | None = None) -> dict[str, str]:
        """Brings the mirror up to date: all names and configurations, and the files of one model or of all.

        What cannot be fetched of other models than `model` leaves those as they are; why, by name.
        """
        failed: dict[str, str] = {}
        with self._telling_room():
            with self._locks.held(_LISTING, run) as held:
                self._there = there = self._listing()
                with self._lock:
                    self._remember()
                    self._remove_what_is_gone(there)
                configurations = {path: each for path, each in there.items() if _in_model(path) in (PBTXT, YAML)}
                self._bring(configurations, held, failed, wanted=model)
                self._make_folders(there)
            names = {path.partition("/")[0] for path in there} if whole else {model} if model is not None else set()
            for name in sorted(names - failed.keys()):
                with self._locks.held(name, run) as held:  # what another listing found meanwhile is newer
                    with self._lock:
                        self._remember()
                    files = {path: each for path, each in self._there.items() if path.startswith(f"{name}/")}
                    self._bring(files, held, failed, wanted=model)
                    self._tidy()
            self._tidy()
        return failed

    def _bring(self, files: Mapping[str, str], held: Held, failed: dict[str, str], *, wanted: str | None) -> None:
        """Fetches what is not here as it is there, by path and identity; why not of other models than `wanted`."""
        for path, identity in files.items():
            name = path.partition("/")[0]
            if name in failed or self._fetched.get(path, ("",))[0] == identity:
                continue
            try:
                self._fetch(path, identity, held)
            except (OSError, UnknownReference) as error:
                if name == wanted or (isinstance(error, OSError) and error.errno in _NO_ROOM):
                    raise
                failed[name] = str(error)

    def _make_folders(self, there: Mapping[str, str]) -> None:
        for folder in {(self.mirror / path).parent for path in there}:
            with contextlib.suppress(OSError):  # `_fetch` says why, for that model
                folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def _telling_room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise SetupError(
                    f"{self._url}: no room for the models in {self.mirror.parent}; free some, or name another "
                    "folder by TRILITH_CACHE"
                ) from error
            raise SetupError(f"{self._url}: cannot be mirrored to {self.mirror.parent}: {error}") from error

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

    def _fetch(self, path: str, identity: str, held: Held) -> None:
        """Downloads one file into the mirror."""
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
                    digest = _copy(remote, local, f"{self._url}/{path}", held)
            link = self.mirror / path
            link.parent.mkdir(parents=True, exist_ok=True)
            with self._lock:  # the content is linked before it gets its name, by which another process may remove it
                new = link.with_name(f".{link.name}{_NEW}")
                new.unlink(missing_ok=True)
                new.hardlink_to(temporary)
                new.replace(link)
                Path(temporary).replace(self._blobs / digest)
                self._fetched[path] = (identity, digest)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def _remember(self) -> None:
        """What other processes have fetched, before this one and meanwhile, and is still so there."""
        try:
            about = self._manifest.stat()
        except FileNotFoundError:
            return
        if (about.st_ino, about.st_mtime_ns) == self._read:
            return
        self._read, self._written = (about.st_ino, about.st_mtime_ns), {}
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):  # a manifest that is none is written anew
            self._written = msgspec.json.decode(self._manifest.read_bytes(), type=dict[str, tuple[str, str]])
        for path, known in self._written.items():
            if self._there.get(path) == known[0] and (self.mirror / path).is_file():
                self._fetched[path] = known

    def _tidy(self) -> None:
        with self._lock:
            self._remove_unused_blobs()
            self._remember()
            self._write_manifest()

    def _write_manifest(self) -> None:
        if self._written != self._fetched:
            new = self._manifest.with_suffix(f".{os.getpid()}")
            new.write_bytes(msgspec.json.encode(self._fetched))
            about = new.stat()
            new.replace(self._manifest)
            self._written, self._read = dict(self._fetched), (about.st_ino, about.st_mtime_ns)

    def _remove_what_is_gone(self, there: Mapping[str, str]) -> None:
        folders = {parent.as_posix() for path in there for parent in Path(path).parents}
        for found in sorted(self.mirror.rglob("*"), reverse=True):  # children first
            relative = found.relative_to(self.mirror).as_posix()
            if found.is_dir():
                if relative not in folders:
                    with contextlib.suppress(OSError):  # something that is not ours lies in it
                        found.rmdir()
            elif relative not in there and not (_is_new(found.name) and _is_young(found)):
                found.unlink(missing_ok=True)
                self._fetched.pop(relative, None)

    def _remove_unused_blobs(self) -> None:
        used = {digest for _, digest in self._fetched.values()}
        if self._blobs.is_dir():
            for blob in self._blobs.iterdir():
                if blob.name not in used and not (blob.name.startswith(_FETCHING) and _is_young(blob)):
                    blob.unlink(missing_ok=True)


def _in_model(path: str) -> str:
    """Where in its model's folder a file lies."""
    return path.partition("/")[2]


def _is_new(name: str) -> bool:
    return name.startswith(".") and name.endswith(_NEW)


def _is_young(path: Path) -> bool:
    """Whether another thread or process may be at work on it."""
    try:
        return time.time() - path.stat().st_mtime < _ABANDONED_S
    except FileNotFoundError:
        return True


def _copy(source: IO[bytes], destination: IO[bytes], shown: str, held: Held) -> str:
    """Copies a remote file; its digest."""
    digest, copied, expected = hashlib.sha256(), 0, getattr(source, "size", None)
    while chunk := _read(source, shown):
        held.heard()
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

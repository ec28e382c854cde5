"""From a model source to a file on this machine.

Rule 1: what is fetched is pinned by sha256; without one nothing is fetched.
Rule 2: one process fetches a package at a time; those who wait find the file in the cache afterwards.
"""

from __future__ import annotations

import contextlib
import time
import zipfile
from pathlib import Path

from trilith.errors import InvalidConfig, SetupError, UnknownReference
from trilith.runtime.sources.cache import FileCache, cache_root, sha256_of
from trilith.runtime.sources.progress import FetchEvent, Phase, Progress, silent
from trilith.runtime.sources.reference import LocalFile, WheelFile, check_sha256, parse_source
from trilith.runtime.sources.wheel import download_wheel, open_member


def resolve(
    source: str,
    *,
    sha256: str | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    base: Path | None = None,
) -> Path:
    """The local path of a source's file, fetched, verified and cached if need be. Blocks: call it from a thread.

    Args:
        source: `pypi:NAME==VERSION#path/in/wheel`, `file:PATH` or a plain path.
        sha256: the file's SHA-256 in hexadecimal digits. Required for `pypi:`, checked when given otherwise.
        cache: the folder of fetched files; `cache_root()` by default.
        progress: told of each step, from this thread.
        base: the folder that a relative path starts from; the current one by default.

    Raises:
        UnknownReference: the scheme, the package version, the file in the wheel or the local file does not exist.
        InvalidConfig: the source or the hash is not of its form, or the hash is missing.
        SetupError: pip or the network failed, the hash differs, or the cache cannot be written.
    """
    parsed = parse_source(source)
    expected = None if sha256 is None else check_sha256(source, sha256)
    report = progress or silent
    if isinstance(parsed, LocalFile):
        return _local(source, parsed, expected, base or Path(), report)
    if expected is None:
        raise InvalidConfig(
            f"model source {source!r}: a fetched file must be pinned: give the sha256 of the file "
            f"{parsed.file_name!r} beside the source (64 hexadecimal digits, as `sha256sum` prints them)"
        )
    files = FileCache(cache or cache_root())
    try:
        return files.find(expected, parsed.file_name) or _fetch(source, parsed, expected, files, report)
    except OSError as error:
        raise SetupError(
            f"model source {source!r}: the cache folder {files.root} cannot be used: {error}. Give another one by the "
            "environment variable TRILITH_CACHE"
        ) from error


def _local(source: str, parsed: LocalFile, expected: str | None, base: Path, report: Progress) -> Path:
    path = (base / parsed.path.expanduser()).absolute()
    if not path.exists():
        raise UnknownReference(f"model source {source!r}: there is no file {path}")
    if expected is None:
        return path
    if not path.is_file():
        raise InvalidConfig(f"model source {source!r}: sha256 is given, but {path} is a folder")
    report(FetchEvent(source=source, phase=Phase.VERIFYING, total_bytes=path.stat().st_size))
    if (found := sha256_of(path)) != expected:
        raise _wrong_hash(source, str(path), expected=expected, found=found)
    return path


def _fetch(source: str, wanted: WheelFile, expected: str, files: FileCache, report: Progress) -> Path:
    key = f"{wanted.name}-{wanted.version}"
    if files.locked(key):
        report(FetchEvent(source=source, phase=Phase.WAITING))
    with files.lock(key):
        path = files.find(expected, wanted.file_name)  # another process may have fetched it while this one waited
        if path is None:
            _store_from_wheel(source, wanted, expected, files, report)
            files.prune_wheels(keep=key, now=time.time())
            path = files.find(expected, wanted.file_name)
    if path is None:
        raise SetupError(f"model source {source!r}: the file was stored in {files.root} and is damaged there")
    size_bytes = path.stat().st_size
    report(FetchEvent(source=source, phase=Phase.READY, done_bytes=size_bytes, total_bytes=size_bytes))
    return path


def _store_from_wheel(source: str, wanted: WheelFile, expected: str, files: FileCache, report: Progress) -> None:
    folder = files.wheel_folder(f"{wanted.name}-{wanted.version}")
    kept = next(iter(sorted(folder.glob("*.whl"))), None)
    if kept is not None:
        with contextlib.suppress(zipfile.BadZipFile):  # it is fetched anew below
            if _extract(source, wanted, kept, expected, files, report) is None:
                return
        kept.unlink(missing_ok=True)  # damaged or not the pinned content: fetched anew, and reported if it still is

    def seen(done_bytes: int, total_bytes: int | None) -> None:
        report(FetchEvent(source=source, phase=Phase.FETCHING, done_bytes=done_bytes, total_bytes=total_bytes))

    seen(0, None)
    wheel = download_wheel(wanted, folder, seen)
    try:
        found = _extract(source, wanted, wheel, expected, files, report)
    except zipfile.BadZipFile as error:
        wheel.unlink(missing_ok=True)
        raise SetupError(f"model source {source!r}: the downloaded {wheel.name} is damaged: {error}") from error
    if found is not None:
        wheel.unlink(missing_ok=True)
        raise _wrong_hash(source, f"{wheel.name}#{wanted.path}", expected=expected, found=found)


def _extract(
    source: str, wanted: WheelFile, wheel: Path, expected: str, files: FileCache, report: Progress
) -> str | None:
    """Stores the wanted file; returns None, or the hash that it has instead of the expected one."""
    with open_member(wheel, wanted.path) as (content, size_bytes):
        report(FetchEvent(source=source, phase=Phase.VERIFYING, total_bytes=size_bytes))
        return files.store(content, sha256=expected, name=wanted.file_name, source=source)


def _wrong_hash(source: str, where: str, *, expected: str, found: str) -> SetupError:
    return SetupError(
        f"model source {source!r}: the content of {where} is not the one that was pinned.\n"
        f"    expected sha256 {expected}\n    found    sha256 {found}\n"
        "If the new content is wanted and trusted, write the found hash into the model's configuration"
    )

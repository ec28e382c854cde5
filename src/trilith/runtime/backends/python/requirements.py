"""What a `requirements.txt` names beside packages of an index: other such files, and files and folders of this machine.

Rule 1: an environment is known by the content of all that, not by places and times: a model may be copied, and a wheel
    that was built anew under its old name makes another environment.
Rule 2: paths are pip's: in a line they start at the folder of the model's own file, behind `-r` at that of the file
    they stand in.
Rule 3: what is not there is noted as such; pip says what it makes of it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_OPTION: Final = re.compile(r"(?P<option>-[a-zA-Z]|--[a-z-]+)(?:\s*=\s*|\s+|(?<=^-\w))(?P<value>\S.*)")
_FILES: Final = ("-r", "--requirement", "-c", "--constraint")
_LINKS: Final = ("-f", "--find-links")
_EDITABLE: Final = ("-e", "--editable")
_OF_PACKAGES: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_ARCHIVES: Final = (".whl", ".zip", ".tar.gz", ".tar.bz2", ".tgz")
_MADE: Final = re.compile(r"build|dist|.*\.egg-info|__pycache__|\.git")  # by building what lies beside it
_COMMENT: Final = re.compile(r"(^|\s)#.*$")


def named_in(requirements: Path) -> Iterator[tuple[str, str]]:
    """What the file names on this machine, and the digest of each: of files, and of folders with all their files.

    Raises:
        OSError: something of it cannot be read.
    """
    yield from _named(requirements.resolve(), requirements.resolve().parent, set())


def _named(file: Path, base: Path, seen: set[Path]) -> Iterator[tuple[str, str]]:
    seen.add(file)
    text = re.sub(r"\\\n", "", file.read_text(encoding="utf-8", errors="replace"))
    for line in text.splitlines():
        said = os.path.expandvars(_COMMENT.sub("", line).strip())
        found = _OPTION.fullmatch(said)
        option, value = (found["option"], found["value"].strip("\"' ")) if found else ("", said)
        if option in _FILES:
            other = _path(value, file.parent)
            if other is not None and other.is_file() and other not in seen:
                yield value, _digest(other)
                yield from _named(other, base, seen)
        elif option in _LINKS and (links := _path(value, base)) is not None:
            yield value, _digest(links)
        elif option in _EDITABLE and (package := _path(value.partition("[")[0], base)) is not None:
            for name in _OF_PACKAGES:
                yield str(package / name), _digest(package / name)
        elif not option and (path := _requirement(value, base)) is not None:
            yield value, _digest(path)


def _requirement(said: str, base: Path) -> Path | None:
    """The file or folder that a line without an option means; None for a package's name."""
    said = said.partition(";")[0].partition(" --")[0].strip()
    _, at, url = said.partition(" @ ")
    if at or said.startswith("file:"):
        return _path((url if at else said).strip(), base) if "file:" in said else None
    place = re.sub(r"\[[^\]]*\]$", "", said)
    if place.startswith((".", "/", "~")) or place.endswith(_ARCHIVES) or (os.sep in place and "://" not in place):
        return _path(place, base)
    return None


def _path(value: str, base: Path) -> Path | None:
    """A path or a `file:` URL as a path; None for what lies elsewhere, and for what is neither: pip tells that."""
    try:
        if value.startswith("file:"):
            value = unquote(urlsplit(value).path)
        elif "://" in value:
            return None
        return Path(base, os.path.expanduser(value)).resolve()  # noqa: PTH111 - the other one raises without a home
    except ValueError:
        return None


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. It is read once for as long as it looks the same.

    Raises:
        OSError: it cannot be read.
    """
    about = path.stat()
    return _digest_of_file(path, about.st_size, about.st_mtime_ns)


def _digest(path: Path) -> str:
    if path.is_file():
        return digest_of_file(path)
    if not path.is_dir():
        return "missing"
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not _MADE.fullmatch(name))
        for name in sorted(files):
            file = Path(folder, name)
            digest.update(f"{file.relative_to(path)}\0{_digest(file)}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


@functools.lru_cache(maxsize=4096)
def _digest_of_file(path: Path, size_bytes: int, modified_ns: int) -> str:
    """Read once as long as the file looks the same: each instance of a model asks for it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

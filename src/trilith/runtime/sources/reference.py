"""What a model source means: text -> a checked value. Pure; nothing is fetched or read here.

    pypi:NAME==VERSION#path/in/wheel    one file of a wheel, from the package index that the user's pip is set up for
    file:PATH, file:///PATH, PATH       a file that is already here

Rule 1: a source that names something remote pins it: an exact version here, and a sha256 beside it (see `resolve`).
Rule 2: everything that later reaches a command line or a file system is checked by a pattern first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote

from trilith.errors import InvalidConfig, UnknownReference

KNOWN_FORMS: Final = ("pypi:NAME==VERSION#path/in/wheel", "file:PATH", "PATH")

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]+):(?P<rest>.*)", re.DOTALL)
# A name and a version start with a letter or digit, so neither can be mistaken for an option of pip's command line.
_WHEEL_FILE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>[A-Za-z0-9][A-Za-z0-9.+!_-]*)#(?P<path>.+)"
)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """One file inside one version of a package.

    Attributes:
        name: the package's name on the index.
        version: its exact version.
        path: the file's path inside the wheel, with forward slashes.
    """

    name: str
    version: str
    path: str

    @property
    def requirement(self) -> str:
        """The requirement that pip understands: `NAME==VERSION`."""
        return f"{self.name}=={self.version}"

    @property
    def file_name(self) -> str:
        """The last part of the path inside the wheel."""
        return PurePosixPath(self.path).name


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file on this machine.

    Attributes:
        path: absolute, or relative to whoever names it.
    """

    path: Path


def parse_source(source: str) -> WheelFile | LocalFile:
    """Reads a source's text.

    Raises:
        UnknownReference: the text is empty, or its scheme is not one that is known.
        InvalidConfig: the scheme is known and the rest is not of its form.
    """
    if not source:
        raise UnknownReference(f"a model source is empty; expected one of {_forms()}")
    match = _SCHEME.fullmatch(source)
    if match is None:
        return LocalFile(path=Path(source))
    scheme, rest = match["scheme"].lower(), match["rest"]
    if scheme == "pypi":
        return _wheel_file(source, rest)
    if scheme == "file":
        return _local_file(source, rest)
    raise UnknownReference(
        f"model source {source!r}: the scheme {scheme!r} is not known; expected one of {_forms()}. "
        "For a path that contains a colon, write file:PATH"
    )


def check_sha256(source: str, sha256: str) -> str:
    """The hash in lower case.

    Raises:
        InvalidConfig: it is not 64 hexadecimal digits.
    """
    lowered = sha256.lower()
    if _SHA256.fullmatch(lowered) is None:
        raise InvalidConfig(
            f"model source {source!r}: sha256 must be 64 hexadecimal digits, got {sha256!r} ({len(sha256)} characters)"
        )
    return lowered


def _wheel_file(source: str, rest: str) -> WheelFile:
    match = _WHEEL_FILE.fullmatch(rest)
    if match is None:
        raise InvalidConfig(
            f"model source {source!r}: expected pypi:NAME==VERSION#path/in/wheel, with an exact version"
        )
    path = match["path"]
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise InvalidConfig(
            f"model source {source!r}: the path inside the wheel must be relative, with forward slashes and "
            f"without '.', '..' or empty parts, got {path!r}"
        )
    return WheelFile(name=match["name"], version=match["version"], path=path)


def _local_file(source: str, rest: str) -> LocalFile:
    if not rest.startswith("//"):
        if not rest:
            raise InvalidConfig(f"model source {source!r}: a path is missing after file:")
        return LocalFile(path=Path(rest))
    host, _, path = rest[2:].partition("/")
    if host not in ("", "localhost") or not path:
        raise InvalidConfig(
            f"model source {source!r}: expected file:///ABSOLUTE/PATH of this machine, got host {host!r}"
        )
    return LocalFile(path=Path("/" + unquote(path)))


def _forms() -> str:
    return ", ".join(KNOWN_FORMS)

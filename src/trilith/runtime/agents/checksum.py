"""The agent `checksum` that Triton ships: the MD5 digests of a model's files must be those that its parameters say.

model_repository_agents { agents [{ name: "checksum" parameters { key: "MD5:1/model.onnx" value: "0cc1..." } }] }
"""

from __future__ import annotations

import errno
import hashlib
import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from trilith.errors import InvalidConfig, SetupError

NAME: Final = "checksum"
_KIND: Final = "MD5:"
_CHUNK_BYTES: Final = 1 << 20


def files_of(parameters: Mapping[str, str]) -> dict[str, str]:
    """The digests that are asked for, by the path of the file in the model's folder.

    Raises:
        InvalidConfig: a parameter is none of these.
    """
    wanted = {}
    for key, digest in parameters.items():
        path = key.removeprefix(_KIND)
        inside = PurePosixPath(path)
        if not key.startswith(_KIND) or not path or "\0" in path or inside.is_absolute() or ".." in inside.parts:
            raise InvalidConfig(
                f"parameters: must be MD5:FILE with FILE in the model's folder, such as MD5:1/model.onnx, got "
                f"{key!r:.200}"
            )
        wanted[path] = digest.strip().lower()
    return wanted


def verify(folder: Path, parameters: Mapping[str, str], heard: Callable[[], None]) -> None:
    """Compares the digests. Blocks.

    Args:
        folder: the model's.
        parameters: as above.
        heard: called now and then while it reads.

    Raises:
        InvalidConfig: a parameter is wrong.
        SetupError: a file has another digest, or cannot be read.
    """
    for path, expected in files_of(parameters).items():
        try:
            found = _md5(folder / path, heard)
        except OSError as error:
            raise SetupError(f"Failed to open file {path}: {error.strerror}") from error
        if found != expected:
            raise SetupError(f"Mismatched MD5 hash for file {path}, expected {expected or 'nothing'}, got {found}")


def _md5(path: Path, heard: Callable[[], None]) -> str:
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # before it is opened: a pipe waits, a device has no end
        raise OSError(errno.EINVAL, "it is no regular file")
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            heard()
    return digest.hexdigest()

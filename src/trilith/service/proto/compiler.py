"""A `.proto` file, with all that it imports, as a descriptor set.

Rule: Google's own compiler reads the file, so that it means here what it means to everybody else. It runs as a process
of its own (a few milliseconds, once a start); it is a program without Python dependencies, and need not be installed
where a descriptor set that it has made lies beside the class.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig

SET_SUFFIXES: Final = (".binpb", ".desc", ".pb")
"""What a descriptor set's file is called: `protoc --include_imports --descriptor_set_out=ocr.binpb ocr.proto`."""
PROTO_SUFFIXES: Final = (".proto", *SET_SUFFIXES)
"""What files are called that declare gRPC services."""
_kept: Final[dict[str, bytes]] = {}
_ENDS_WITHIN_S: Final = 30.0
_SHOWN_CHARACTERS: Final = 2000


def read_file(path: Path, root: Path, where: str) -> bytes:
    """The serialised `FileDescriptorSet` of a file.

    Args:
        path: a `.proto`, or a descriptor set.
        root: where imports are looked for, behind the file's own folder and before the well-known types.
        where: `Ocr`, for messages.

    Raises:
        InvalidConfig: there is no such file, it is no valid `.proto`, or there is no compiler.
    """
    kept = _kept.get(os.path.realpath(path))
    if kept is None and not path.is_file():
        raise InvalidConfig(f"{where}: proto={path.name!r}: there is no file {path}")
    if path.suffix in SET_SUFFIXES:
        return path.read_bytes() if kept is None else kept
    if kept is None:
        return _compile(path, root, where)
    with tempfile.TemporaryDirectory(prefix="trilith-") as folder:
        for name, content in _kept.items():
            place = Path(f"{folder}{name}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        return _compile(path, root, where, inside=folder)


def text_of(path: Path) -> str:
    """What a `.proto` file says; "" of a descriptor set. `read_file` has read it before."""
    if path.suffix in SET_SUFFIXES:
        return ""
    kept = _kept.get(os.path.realpath(path))
    return (path.read_bytes() if kept is None else kept).decode("utf-8", "replace")


def keep_files(files: Mapping[str, bytes]) -> None:
    """From now on this process reads these files as they were, by their real paths, whatever lies there."""
    _kept.clear()
    _kept.update(files)


def _compile(path: Path, root: Path, where: str, *, inside: str = "") -> bytes:
    file, beside = (f"{inside}{os.path.realpath(one)}" if inside else str(one) for one in (path, root))
    roots = dict.fromkeys((f"-I{Path(file).parent}", f"-I{beside}"))
    options = ("--include_imports", "--descriptor_set_out=/dev/stdout")
    command = [*_compiler(where), *roots, *options, file]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_ENDS_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidConfig(f"{where}: {path} could not be compiled: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:_SHOWN_CHARACTERS]
        said = said.replace(inside, "") if inside else said
        raise InvalidConfig(f"{where}: {path} is no valid .proto file: {said}")
    return done.stdout


def _compiler(where: str) -> list[str]:
    """The command: `protoc` beside this Python, on the path, or inside grpcio-tools."""
    beside = Path(sys.executable).parent / "protoc"
    if beside.is_file():
        return [str(beside)]
    if (found := shutil.which("protoc")) is not None:
        return [found]
    if importlib.util.find_spec("grpc_tools") is not None:
        return [sys.executable, "-m", "grpc_tools.protoc"]
    raise InvalidConfig(
        f"{where} has proto=..., and there is no protoc to read it with: pip install 'trilith[proto]'. Or name a"
        f" descriptor set ({SET_SUFFIXES[0]}) made by `protoc --include_imports --descriptor_set_out`"
    )

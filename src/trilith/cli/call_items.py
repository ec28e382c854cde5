"""The items of a stream on a terminal, in a pipe or in a file, each as soon as it is there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from trilith.errors import InvalidConfig


def write_items(items: Iterator[Any], output: str, *, as_json: bool) -> None:
    """Writes them: text as it is, bytes only to a file or a pipe that asks for them, anything else as a line of JSON.

    Args:
        items: as they come.
        output: the file; "" for standard output, `-` for its bytes.
        as_json: text is a line of JSON too.

    Raises:
        InvalidConfig: the file cannot be written.
        TrilithError: whatever the call failed with.
    """
    with contextlib.ExitStack() as undo:
        to = _opened(output, undo)
        text_alone, size_bytes = False, 0
        try:
            for item in items:
                if isinstance(item, bytes):
                    size_bytes += len(item)
                    if not output:
                        continue
                written, text_alone = _written(item, as_json=as_json)
                to.write(written)
                to.flush()
        finally:  # what is said next, of a failure too, begins a line of its own
            if text_alone:
                to.write(b"\n")
                to.flush()
        if size_bytes and not output:
            sys.stdout.write(f"{size_bytes:,} bytes; -o FILE writes them\n")


def _opened(output: str, undo: contextlib.ExitStack) -> BinaryIO:
    if output in ("", "-"):
        sys.stdout.flush()
        return sys.stdout.buffer
    try:
        return undo.enter_context(Path(output).open("wb"))
    except OSError as error:
        raise InvalidConfig(f"-o {output}: it cannot be written: {error.strerror}") from error


def _written(item: Any, *, as_json: bool) -> tuple[bytes, bool]:
    """An item as it is written, and whether it is text that ends nowhere."""
    if isinstance(item, bytes):
        return item, False
    if isinstance(item, str) and not as_json:
        return item.encode(errors="replace"), True
    return msgspec.json.encode(item, enc_hook=_plain) + b"\n", False


def _plain(value: Any) -> Any:
    """Arrays and pictures of a stream, as far as a line can tell."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)

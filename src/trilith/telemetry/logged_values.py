"""Values as a data log keeps them: copied, bounded, and of JSON's own types.

Rule: what is kept is what the value was when it was logged, and never more than a bounded piece of it. What is left out
    is said: a long text ends in `...`, an array above the bound is its dtype and shape, other objects are their class.
"""

from __future__ import annotations

import datetime
import enum
import math
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

LONGEST_TEXT: Final = 4096
LARGEST_ARRAY: Final = 1024
_MOST_ITEMS: Final = 1000
_DEEPEST: Final = 5
_VALUE_BYTES: Final = 60  # what an object takes beside its content, about
_PIXEL_BYTES: Final = 4


class KeptImage:
    """A picture that is to be written as a file. `image`: a copy, of PIL."""

    __slots__ = ("image",)

    def __init__(self, image: Any) -> None:
        self.image = image


class NoRoom(Exception):
    """What is to be kept is larger than the room for it."""


def kept(value: Any, *, images: bool, room_bytes: int) -> tuple[Any, int]:
    """The value, bounded, and about how many bytes it takes.

    Args:
        value: any.
        images: pictures become `KeptImage`; without, their size and mode.
        room_bytes: how many bytes it may take.

    Raises:
        NoRoom: it would take more. A picture is not copied to find that out.
    """
    keeper = _Keeper(images, room_bytes)
    return keeper.keep(value, 0), keeper.taken_bytes


class _Keeper:
    def __init__(self, images: bool, room_bytes: int) -> None:
        self._images = images
        self._room_bytes = room_bytes
        self._left = _MOST_ITEMS
        self.taken_bytes = 0

    def _take(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes
        if self.taken_bytes > self._room_bytes:
            raise NoRoom

    def keep(self, value: Any, depth: int) -> Any:
        self._left -= 1
        self._take(_VALUE_BYTES)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, enum.Enum):
            return self.keep(value.value, depth)
        if isinstance(value, int):
            return int(value) if -(1 << 63) <= value < 1 << 64 else str(value)[:LONGEST_TEXT]
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return {"bytes": len(value)}
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if isinstance(value, PurePath | UUID):
            return self._text(str(value))
        return self._of_library(value, depth)

    def _of_library(self, value: Any, depth: int) -> Any:
        numpy, image = sys.modules.get("numpy"), sys.modules.get("PIL.Image")
        if numpy is not None and isinstance(value, numpy.ndarray):
            return self._array(value)
        if numpy is not None and isinstance(value, numpy.generic):
            item = value.item()
            return str(item) if isinstance(item, numpy.generic | complex) else self.keep(item, depth)
        if image is not None and isinstance(value, image.Image):
            return self._image(value) if self._images else _about(value)
        if depth >= _DEEPEST or self._left <= 0:
            return {"left out": type(value).__name__}
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            found = [self.keep(item, depth + 1) for item, _ in zip(value, range(max(0, self._left)), strict=False)]
            return [*found, {"left out": len(value) - len(found)}] if len(found) < len(value) else found
        if callable(dump := getattr(value, "model_dump", None)):
            return self._mapping(dump(), depth)
        fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "__struct_fields__", None)
        if fields is not None and not isinstance(value, type):
            return self._mapping({str(name): getattr(value, name, None) for name in fields}, depth)
        return {"left out": type(value).__name__}

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in value.items():
            if self._left <= 0:
                found["left out"] = len(value) - len(found)
                break
            found[self._text(str(key))] = self.keep(item, depth + 1)
        return found

    def _array(self, value: Any) -> Any:
        if value.size > min(LARGEST_ARRAY, max(0, self._left)) or value.dtype.kind not in "biufU":
            return {"dtype": str(value.dtype), "shape": list(value.shape)}
        self._left -= int(value.size)
        self._take(int(value.size) * _VALUE_BYTES + int(value.nbytes))
        return _finite(value.tolist())

    def _image(self, value: Any) -> KeptImage:
        self._take(value.width * value.height * _PIXEL_BYTES)
        return KeptImage(value.copy())

    def _text(self, value: str) -> str:
        shortened = _text(value)
        self._take(len(shortened))
        return shortened


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, str):
        return _text(value)
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _text(value: str) -> str:
    shortened = value if len(value) <= LONGEST_TEXT else f"{value[: LONGEST_TEXT - 3]}..."
    return shortened.encode(errors="replace").decode()


def _about(image: Any) -> dict[str, Any]:
    return {"image": {"width": image.width, "height": image.height, "mode": image.mode}}

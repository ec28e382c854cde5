"""A service with a `.proto` of all kinds of fields, and what reads and writes its messages without Trilith's codecs."""

import dataclasses
import datetime
import enum
import functools
import uuid
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel

import trilith
from trilith.service import spec_of
from trilith.service.proto.schema import message_class
from trilith.wire.grpc_descriptors import read_descriptor_set

PROTO = "application/grpc+proto"


@dataclasses.dataclass
class AllScalars:
    d: float
    f: float
    i32: int
    i64: int
    u32: int
    u64: int
    s32: int
    s64: int
    f32: int
    f64: int
    sf32: int
    sf64: int
    b: bool
    s: str
    raw: bytes


@dataclasses.dataclass
class Line:
    text: str
    score: float
    box: list[float]
    row: int | None = None


class Colour(enum.Enum):
    RED = "red"
    DEEP_BLUE = "deep blue"


@dataclasses.dataclass
class Collection:
    words: set[str]
    numbers: tuple[int, ...]
    weights: dict[str, float]
    by_row: dict[int, Line]
    lines: list[Line]
    best: Line | None


class Choice(BaseModel):
    colour: Colour | None
    named: str
    several: list[Colour]
    text: str | None = None
    number: int | None = None
    line: Line | None = None
    limit: float | None = None
    identity: uuid.UUID


@dataclasses.dataclass
class WellKnown:
    at: datetime.datetime
    took: datetime.timedelta
    said: dict[str, Any]
    anything: Any
    several: list[Any]
    number: int | None
    times: list[datetime.datetime]


@dataclasses.dataclass
class Specials:
    image: Image.Image
    pixels: NDArray[np.uint8]
    row: NDArray[np.float32]
    tensor: np.ndarray


@dataclasses.dataclass
class Tree:
    name: str
    branches: "list[Tree]"


@trilith.service(proto="protos/kinds.proto", rpc="kinds.v1.Kinds")
class Kinds:
    def __init__(self) -> None:
        self.seen: Any = None

    @trilith.api
    async def scalars(self, value: AllScalars, /) -> AllScalars:
        self.seen = value
        return value

    @trilith.api
    async def collect(
        self,
        words: set[str],
        numbers: tuple[int, ...],
        weights: dict[str, float],
        by_row: dict[int, Line],
        lines: list[Line],
        best: Line | None = None,
    ) -> Collection:
        return Collection(words, numbers, weights, by_row, lines, best)

    @trilith.api
    async def choose(self, value: Choice, /) -> Choice:
        self.seen = value
        return value

    @trilith.api
    async def known(self, value: WellKnown, /) -> WellKnown:
        self.seen = value
        return value

    @trilith.api
    def special(self, value: Specials, /) -> Specials:
        self.seen = value
        return value

    @trilith.api
    async def read_line(self, text: str, score: float, box: list[float], row: int = 7) -> Line:
        return Line(text, score, box, row)

    @trilith.api
    async def join(self, lines: list[Line]) -> str:
        return " ".join(line.text for line in lines)

    @trilith.api
    async def upper(self, value: str, /) -> str:
        return value.upper()

    @trilith.api
    async def nothing(self) -> None:
        return None

    @trilith.api
    async def grow(self, tree: Tree, /) -> Tree:
        return tree

    @trilith.api
    async def loose(self, value: dict[str, Any], /) -> dict[str, Any]:
        self.seen = value
        return value


@functools.cache
def message(name: str, service: object = Kinds) -> Any:
    """A message class of the service's files, made of its descriptors alone."""
    return message_class(_pool(service).FindMessageTypeByName(name))


@functools.cache
def _pool(service: object) -> Any:
    return read_descriptor_set(spec_of(service).grpc.descriptor_set)[0]

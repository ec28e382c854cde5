"""A method for each kind of type: most give back what they get."""

import dataclasses
import datetime
import decimal
import enum
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, Field

import trilith


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1, le=9)] = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Person(BaseModel):
    given_name: str = Field(alias="givenName")
    born: datetime.date | None = None
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Many:
    identity: uuid.UUID
    when: datetime.datetime
    much: decimal.Decimal
    numbers: dict[str, list[float | None]]


@dataclasses.dataclass
class Looked:
    picture: Image.Image
    mean: NDArray[np.float64]
    table: pd.DataFrame
    note: str


People = trilith.Frame(columns={"name": "str", "age": "int64", "height": "float64", "left": "int32?"})


@trilith.service
class Kinds:
    @trilith.api
    async def number(self, x: int, y: float = 0.5, *, z: bool = False) -> float:
        return float(x) if z else y

    @trilith.api
    async def text(self, text: str) -> str:
        return text

    @trilith.api
    async def root(self, words: list[str], /) -> dict[str, int]:
        return {word: len(word) for word in words}

    @trilith.api
    async def animal(self, animal: Annotated[Cat | Dog, Field(discriminator="kind")]) -> Cat | Dog:
        return animal

    @trilith.api
    async def tree(self, tree: Tree) -> Tree:
        return tree

    @trilith.api
    async def person(self, person: Person) -> Person:
        return person

    @trilith.api
    async def many(self, many: Many | None = None) -> Many | None:
        return many

    @trilith.api
    async def pair(self, pair: tuple[int, Colour]) -> tuple[int, Colour]:
        return pair

    @trilith.api
    async def anything(self, value: Any) -> Any:
        return value

    @trilith.api
    async def array(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x

    @trilith.api
    async def points(self, points: Annotated[NDArray[np.int64], trilith.Shape(None, 2)]) -> NDArray[np.int64]:
        return points

    @trilith.api
    def people(self, people: Annotated[pd.DataFrame, People]) -> Annotated[pd.DataFrame, People]:
        return people

    @trilith.api
    def table(self, table: pa.Table) -> pa.Table:
        return table

    @trilith.api
    def column(self, column: pd.Series) -> pd.Series:
        return column

    @trilith.api(batch=trilith.Batch(max_size=4))
    def batched(self, frame: list[pd.DataFrame]) -> list[pd.DataFrame]:
        return frame

    @trilith.api(batch=trilith.Batch(max_size=4))
    async def batched_arrays(self, x: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        return x

    @trilith.api
    def picture(self, image: Image.Image) -> Image.Image:
        return image

    @trilith.api
    def pictures(self, images: list[Image.Image]) -> list[Image.Image]:
        return images

    @trilith.api
    async def raw(self, data: bytes) -> bytes:
        return data

    @trilith.api
    def sound(self, sound: Annotated[Path, trilith.ContentType("audio/*")]) -> str:
        return sound.suffix

    @trilith.api
    def files(self, files: list[Path], note: str = "") -> list[int]:
        return [file.stat().st_size for file in files]

    @trilith.api
    def either(self, source: str | Path | None = None) -> str:
        return f"{source.read_text()} in a file" if isinstance(source, Path) else f"{source}"

    @trilith.api
    def look(self, image: Image.Image) -> Looked:
        frame = pd.DataFrame({"width": [image.width]})
        return Looked(image, np.asarray(image, np.float64).mean(axis=(0, 1)).reshape(-1), frame, image.mode)

    @trilith.api
    async def split(self, data: bytes) -> tuple[bytes, int]:
        return data, len(data)

"""Typed stub files: mypy accepts them, and they are the client that they say."""

import subprocess
import sys
from pathlib import Path

import pytest

from trilith.cli import main

APP = '''
import dataclasses
import enum
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, Field

import trilith


class Size(enum.StrEnum):
    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Line:
    """A line of "text"."""

    text: str
    score: float = 1.0
    tags: list[str] = dataclasses.field(default_factory=list)


class Tree(BaseModel):
    name: str
    children: list["Tree"] = []
    size: Size = Size.SMALL


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool


class Odd(BaseModel):
    str: int
    list: list[int]
    class_: Annotated[int, Field(alias="class")] = 1


@trilith.service
class Everything:
    """All that a signature may say.

    And more."""

    @trilith.api
    async def add(self, a: float, b: float = 1.0) -> float:
        """Adds two numbers.

        Nothing more, "really\\\\n"."""
        return a + b

    @trilith.api
    def lines(self, image: Image.Image, limit: int | None = None, *, lang: Literal["en", "de"] = "en") -> list[Line]:
        return [Line("a", 0.5)][:limit]

    @trilith.api
    def first(self, lines: list[Line]) -> Line | None:
        return lines[0] if lines else None

    @trilith.api
    def mirror(self, image: Image.Image) -> Image.Image:
        return image

    @trilith.api
    def scale(self, x: NDArray[np.float32], by: float = 2.0) -> NDArray[np.float32]:
        return x * np.float32(by)

    @trilith.api
    def stack(self, pages: list[NDArray[np.uint8]], mask: NDArray[np.bool_] | None = None) -> np.ndarray:
        return np.stack(pages)

    @trilith.api
    def size(self, file: Path) -> int:
        return file.stat().st_size

    @trilith.api
    def echo(self, data: bytes) -> bytes:
        return data

    @trilith.api
    def grow(self, tree: Tree) -> Tree:
        return Tree(name=tree.name, children=[tree], size=Size.LARGE)

    @trilith.api
    def pet(self, pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> str:
        return pet.kind

    @trilith.api
    def upper(self, text: str, /) -> str:
        return text.upper()

    @trilith.api
    def list(self, names: list[str], day: date | None = None) -> dict[str, list[int]]:
        return {name: [len(name)] for name in names}

    @trilith.api
    def odd(self, odd: Odd, anything: Any = None) -> tuple[int, str]:
        return odd.str, "x"

    @trilith.api
    def nothing(self) -> None: ...

    @trilith.api
    async def count_up(self, to: int) -> AsyncIterator[int]:
        for number in range(to):
            yield number

    @trilith.api
    async def total(self, numbers: AsyncIterator[int]) -> int:
        return sum([number async for number in numbers])

    @trilith.api
    def both(self, image: Image.Image) -> tuple[Image.Image, str]:
        return image, "text"
'''

USE = """
from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stubs import AsyncEverything, Everything, Line, TreeInput, TreeOutput, connect, connect_async


def use(url: str, image: Image.Image) -> None:
    with connect(url, timeout_s=5) as client:
        assert_type(client, Everything)
        assert_type(client.add(1, 2), float)
        assert_type(client.lines(image, lang="de"), list[Line])
        client.lines(Path("page.png"), limit=3)
        client.lines(image, lang="fr")  # type: ignore[arg-type]
        client.lines("page.png")  # type: ignore[arg-type]
        client.lines(image, 3, "en")  # type: ignore[call-arg]
        client.reed(image)  # type: ignore[attr-defined]
        assert_type(client.first([{"text": "a", "score": 1.0, "tags": []}]), Line | None)
        client.first(client.lines(image))
        client.first([{"tags": []}])  # type: ignore[typeddict-item]
        assert_type(client.mirror(image), Image.Image)
        assert_type(client.scale(np.ones(3, np.float32)), NDArray[np.float32])
        assert_type(client.stack([np.ones((2, 2), np.uint8)]), NDArray[Any])
        assert_type(client.size(b"abc"), int)
        assert_type(client.echo(b"abc"), bytes)
        assert_type(client.pet({"kind": "cat", "lives": 9}), str)
        client.pet({"kind": "cow", "lives": 9})  # type: ignore[typeddict-item]
        assert_type(client.upper("a"), str)
        client.upper(text="a")  # type: ignore[call-arg]
        assert_type(client.list(["a"]), dict[str, list[int]])
        assert_type(client.odd({"str": 1, "list": [1], "class": 2}), list[int | str])
        client.nothing()
        assert_type(client.count_up(3), Iterator[int])
        assert_type(client.total([1, 2]), int)
        client.total(["a"])  # type: ignore[list-item]
        image_and_text = client.both(image)
        assert_type(image_and_text[0], Image.Image)
        assert_type(client.with_timeout(3), Everything)


async def use_async(url: str, image: Image.Image) -> None:
    async with connect_async(url) as client:
        assert_type(client, AsyncEverything)
        assert_type(await client.lines(image), list[Line])
        assert_type(await client.upper("a"), str)
        assert_type([number async for number in client.count_up(3)], list[int])
        assert_type(await client.total([1, 2]), int)
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("stubbed.py").write_text(APP)
    yield "stubbed.py:Everything"
    sys.modules.pop("stubbed", None)


def client(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["client", *arguments])
    return ended.value.code


@pytest.mark.timeout(200)
def test_mypy_accepts_the_file_and_what_uses_it(app, tmp_path):
    assert client(app, "-o", "stubs.py") == 0
    Path("use.py").write_text(USE)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--warn-unreachable", "--no-incremental", "stubs.py", "use.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr + Path("stubs.py").read_text()


def test_the_same_text_each_time_and_from_a_server(app, capsys, serve):
    assert client(app) == 0
    here = capsys.readouterr().out
    server = serve(app)
    assert client(f"http://127.0.0.1:{server.http}") == 0
    assert capsys.readouterr().out == here
    assert app not in here


def test_check(app, capsys):
    assert client(app, "--check", "-o", "stubs.py") == 1
    assert (
        "stubs.py is not there: `trilith client stubbed.py:Everything -o stubs.py` writes it" in capsys.readouterr().out
    )
    assert client(app, "-o", "stubs.py") == 0
    assert client(app, "-o", "stubs.py", "--check") == 0
    Path("stubs.py").write_text("old")
    assert client(app, "-o", "stubs.py", "--check") == 1
    assert "out of date" in capsys.readouterr().out
    assert client(app, "--check") == 2


def test_it_is_the_client_that_it_says(app, tmp_path, serve, monkeypatch):
    assert client(app, "-o", "stubs_used.py") == 0
    server = serve(app)
    monkeypatch.syspath_prepend(str(tmp_path))
    import stubs_used

    try:
        with stubs_used.connect(f"http://127.0.0.1:{server.http}", timeout_s=20) as found:
            assert found.add(1, 2) == 3
            assert found.first([{"text": "a"}]) == {"text": "a", "score": 1.0, "tags": []}
            assert found.grow({"name": "a"})["children"][0]["name"] == "a"
            assert found.upper("a") == "A"
            assert found.list(["ab"]) == {"ab": [2]}
            assert list(found.count_up(3)) == [0, 1, 2]
            assert found.total([1, 2]) == 3
    finally:
        sys.modules.pop("stubs_used", None)

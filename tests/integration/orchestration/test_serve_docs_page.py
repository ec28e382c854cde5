"""The page at `/docs` of a running server, with what a browser gives it: every method is there and can be tried."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

APP = '''
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from PIL import Image
from pydantic import BaseModel, Field

import trilith


class Line(BaseModel):
    text: str = Field(description="what is wanted", max_length=9)


class Order(BaseModel):
    count: int = Field(ge=2)
    lines: list[Line] = []
    note: str | None = None


@trilith.service
class Page:
    """All kinds of methods."""

    @trilith.api
    def mirror(self, image: Image.Image, times: int = 1) -> Image.Image:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    @trilith.api
    async def count(self, to: int = 3) -> AsyncIterator[dict[str, int]]:
        for number in range(to):
            yield {"number": number}

    @trilith.api
    def words(self) -> Iterator[str]:
        yield "one "
        yield "two"

    @trilith.api
    def raw(self) -> Iterator[bytes]:
        yield b"ab"
        yield b"cde"

    @trilith.api
    async def breaks(self) -> AsyncIterator[int]:
        yield 1
        raise ValueError("midway")

    @trilith.api
    async def total(self, numbers: AsyncIterator[int], start: int = 10) -> int:
        return start + sum([number async for number in numbers])

    @trilith.api
    async def doubled(self, numbers: AsyncIterator[int], by: int = 2) -> AsyncIterator[int]:
        async for number in numbers:
            yield by * number * 100

    @trilith.api
    def both(self, image: Image.Image) -> tuple[Image.Image, str]:
        return image, "a text"

    @trilith.api
    def size(self, file: Path) -> int:
        return file.stat().st_size

    @trilith.api
    def order(self, order: Order) -> int:
        return order.count

    @trilith.api
    def fail(self) -> int:
        raise ValueError("secret")
'''

BROWSER = Path(__file__).with_name("docs_page_browser.js")


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page")
def test_every_method_can_be_tried(serve, tmp_path):
    (tmp_path / "paged.py").write_text(APP)
    server = serve(f"{tmp_path}/paged.py:Page")
    png = (
        "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="  # 2 x 2
    )
    flag = "--experimental-websocket"
    sockets = subprocess.run(["node", flag, "-e", "new WebSocket"], capture_output=True, text=True, check=False)
    flags = [flag] if "TypeError" in sockets.stderr else []  # it knows the word, and lacks an argument
    done = subprocess.run(
        ["node", *flags, str(BROWSER), f"http://127.0.0.1:{server.http}", png],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mirror"]["pictures"] == ["answer"]
    assert "3 items" in found["count"]["text"]
    assert found["count"]["text"].endswith('{"number":0}\n{"number":1}\n{"number":2}\n')
    assert found["words"]["text"].endswith("one two")
    assert found["raw"]["links"] == ["answer"]
    assert "5 bytes" in found["raw"]["text"]
    assert '1\n{"error":{"code":"service_failed"' in found["breaks"]["text"]
    assert found["total"]["text"].endswith("12")  # 10, and the two items that the page offers
    assert found["doubled"]["said"] == ("> 1\n200\n> 2\n400\nclosed: 1000 \n" if flags else "")
    assert len(found["both"]["pictures"]) == 1
    assert "a text" in found["both"]["text"]
    assert found["size"]["text"].startswith("200 OK")
    assert found["order"]["text"].endswith("2")
    assert "order.countintegerrequiredat least 2" in found["order"]["card"]
    assert "order.lines[].textstringrequiredwhat is wanted; length at most 9" in found["order"]["card"]
    assert found["order"]["card"].startswith("POST/orderParameters")  # its name once
    assert found["fail"]["text"].startswith("500 ")
    assert "a stream of" in found["count"]["card"]
    assert {name: each["unnamed"] for name, each in found.items()} == dict.fromkeys(found, 0)

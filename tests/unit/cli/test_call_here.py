"""`trilith call app.py:Name/method`: the service runs in this process."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from trilith.cli import main

APP = '''
import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import trilith


@trilith.service
class Lengths:
    @trilith.api(batch=trilith.Batch(max_size=4))
    async def measure(self, words: list[str]) -> list[int]:
        return [len(word) for word in words]


@trilith.service
class Speller:
    @trilith.api
    def spell(self, word: str) -> Iterator[str]:
        yield from word


@trilith.service
class Desk:
    """Everything that a call may bring back."""

    lengths = trilith.depends(Lengths)
    speller = trilith.depends(Speller)

    async def __aenter__(self):
        print("entered")
        return self

    async def __aexit__(self, *error):
        print("left")

    @trilith.api
    async def words(self, text: str, times: int = 1) -> list[int]:
        """Lengths of words."""
        return await asyncio.gather(*(self.lengths.measure(word) for word in text.split() * times))

    @trilith.api
    def greet(self, name: str) -> str:
        return f"hello {name}"

    @trilith.api
    def mirror(self, image: Image.Image) -> Image.Image:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    @trilith.api
    def halves(self, image: Image.Image) -> list[Image.Image]:
        return [image.crop((0, 0, 1, 2)), image.crop((1, 0, 2, 2))]

    @trilith.api
    def ramp(self, n: int) -> NDArray[np.float32]:
        return np.arange(n, dtype=np.float32)

    @trilith.api
    def count(self, file: Path) -> dict[str, str | int]:
        return {"name": file.name, "size": file.stat().st_size}

    @trilith.api
    async def count_up(self, to: int, fail_at: int = -1) -> AsyncIterator[int]:
        for number in range(to):
            if number == fail_at:
                raise ValueError("midway")
            yield number

    @trilith.api
    def spell(self, word: str) -> Iterator[str]:
        yield from word

    @trilith.api
    def chunks(self) -> Iterator[bytes]:
        yield b"ab"
        yield b"cd"

    @trilith.api
    async def total(self, numbers: AsyncIterator[int], start: int = 0) -> int:
        return start + sum([number async for number in numbers])

    @trilith.api
    def doubled(self, words: Iterator[str]) -> Iterator[str]:
        return (word * 2 for word in words)

    @trilith.api
    def both(self, image: Image.Image) -> tuple[Image.Image, str]:
        return image, "a text"

    @trilith.api
    async def spelled(self, word: str) -> list[str]:
        return [letter async for letter in self.speller.spell(word)]

    @trilith.api
    def raw(self) -> bytes:
        return b"\\x00\\xff"

    @trilith.api
    def header(self) -> str:
        return trilith.context().headers.get("x-who", "nobody")

    @trilith.api
    def fail(self) -> str:
        raise ValueError("a bad day")

    @trilith.api
    async def slow(self) -> None:
        await asyncio.sleep(60)
'''


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Calls a method of the service above; exit status, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("calldesk.py").write_text(APP)
    image = Image.new("RGB", (2, 2))
    image.putpixel((0, 0), (255, 0, 0))
    image.save("page.png")

    def run(method, *arguments):
        with pytest.raises(SystemExit) as ended:
            main(["call", f"calldesk.py:Desk/{method}", *arguments])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    yield run
    sys.modules.pop("calldesk", None)


def test_json_and_text(call):
    assert call("words", "text=a word or two", "times=2")[:2] == (
        0,
        "[\n  1,\n  4,\n  2,\n  3,\n  1,\n  4,\n  2,\n  3\n]\n",
    )
    assert call("words", "text=a word", "--json")[:2] == (0, "[1,4]\n")
    assert call("greet", "name=Ann")[:2] == (0, "hello Ann\n")
    assert call("greet", "name=Ann", "--json")[:2] == (0, '"hello Ann"\n')


def test_what_the_service_prints_is_no_part_of_the_answer(call):
    status, out, err = call("greet", "name=Ann")
    assert (status, out) == (0, "hello Ann\n")
    assert "entered" in err
    assert "left" in err


def opened(name):
    with Image.open(name) as image:
        image.load()
        return image


def test_images(call):
    assert call("mirror", "image=@page.png")[1].startswith("image/png, 2 x 2 pixels, ")
    status, out, _ = call("mirror", "image=@page.png", "-o", "out.png")
    assert (status, out.split(":")[0]) == (0, "wrote out.png")
    assert opened("out.png").getpixel((1, 0)) == (255, 0, 0)
    call("mirror", "image=@page.png", "-o", "out.jpg")
    assert opened("out.jpg").format == "JPEG"
    assert call("halves", "image=@page.png", "-o", "half.png")[1].count("wrote half-") == 2
    assert opened("half-1.png").size == (1, 2)
    call("halves", "image=@page.png", "-o", "folder/")
    assert sorted(path.name for path in Path("folder").iterdir()) == ["halves-1.png", "halves-2.png"]


def test_standard_input_and_output(call, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(Path("page.png").read_bytes())))
    assert call("count", "file=@-", "--json")[1].endswith(f'"size":{Path("page.png").stat().st_size}}}\n')
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out, isatty=lambda: False))
    call("raw", "-o", "-")
    assert out.getvalue() == b"\x00\xff"


def test_arrays(call):
    assert call("ramp", "n=3")[1] == "[0.0,1.0,2.0]\n"
    assert call("ramp", "n=1000")[1] == (
        "array of float32, shape [1000], from 0 to 999, mean 499.5; -o FILE writes it\n"
    )
    call("ramp", "n=1000", "-o", "x.npy")
    assert np.load("x.npy").shape == (1000,)
    call("ramp", "n=3", "-o", "x.json")
    assert json.loads(Path("x.json").read_text()) == [0, 1, 2]


def test_streams_out(call, monkeypatch, tmp_path):
    assert call("count_up", "to=3", "-o", "n.jsonl")[0] == 0
    assert Path("n.jsonl").read_text() == "0\n1\n2\n"
    call("spell", "word=abc", "-o", "w.txt")
    assert Path("w.txt").read_text() == "abc\n"
    call("spell", "word=ab", "--json", "-o", "w.txt")
    assert Path("w.txt").read_text() == '"a"\n"b"\n'
    call("chunks", "-o", "c.bin")
    assert Path("c.bin").read_bytes() == b"abcd"
    status, _, err = call("count_up", "to=5", "fail_at=2", "-o", "n.jsonl")
    assert status == 1
    assert "raised ValueError: midway" in err
    assert Path("n.jsonl").read_text() == "0\n1\n"


def test_streams_in(call):
    assert call("total", "numbers=1", "numbers=2", "start=10")[1] == "13\n"
    Path("lines.jsonl").write_text("1\n2\n\n3\n")
    assert call("total", "numbers=@lines.jsonl")[1] == "6\n"
    assert call("total")[0] == 2
    assert call("doubled", "words=a", "words=b", "-o", "d.txt")[0] == 0
    assert Path("d.txt").read_text() == "aabb\n"
    assert call("spelled", "word=ab", "--json")[1] == '["a","b"]\n'


def test_answers_of_several_parts(call):
    status, _, _ = call("both", "image=@page.png", "-o", "parts/")
    assert status == 0
    assert sorted(path.suffix for path in Path("parts").iterdir()) in ([".json", ".png"], [".png", ".txt"])
    assert "a text" in call("both", "image=@page.png", "--json")[1]
    assert "2 x 2 pixels" in call("both", "image=@page.png")[1]


def test_files_keep_their_names(call):
    Path("notes.txt").write_text("abc")
    assert call("count", "file=@notes.txt", "--json")[1] == '{"name":"notes.txt","size":3}\n'


def test_headers(call):
    assert call("header", "--header", "X-Who: Ann")[1] == "Ann\n"
    assert call("header", "--header", "x-who=Ann")[1] == "Ann\n"
    assert call("header", "--header", "who")[0] == 2


def test_errors_have_their_status(call):
    status, out, err = call("fail")
    assert (status, out) == (1, "")
    assert err.endswith("trilith: Desk.fail raised ValueError: a bad day\n")
    status, _, err = call("fail", "--json")
    assert json.loads(err.splitlines()[-1])["error"]["code"] == "service_failed"
    assert call("greet", "nam=Ann")[0] == 2
    status, _, err = call("gret", "name=Ann")
    assert status == 2
    assert "did you mean greet?" in err
    assert call("words", "text=a", "times=x")[0] == 2
    assert call("slow", "--timeout-s", "0.05")[0] == 1
    assert call("greet", "name=Ann", "--timeout-s", "0")[0] == 2


def test_a_file_that_cannot_be_written(call):
    Path("taken").write_text("")
    status, _, err = call("greet", "name=Ann", "-o", "taken/out.txt")
    assert status == 2
    assert "cannot be written" in err

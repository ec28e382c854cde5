"""Arguments as a person types them."""

import contextlib
import dataclasses
import enum
from datetime import date
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

import trilith
from trilith.errors import InvalidInput
from trilith.service import describe, openapi_document
from trilith.service.client import Operation, read_arguments
from trilith.service.client.operations import read_operations


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@trilith.service
class Typed:
    @trilith.api
    def scalars(self, count: int, name: str = "", ratio: float = 1.0, sure: bool = False, any: Any = None) -> None: ...

    @trilith.api
    def lists(self, tags: list[str], numbers: list[int] | None = None) -> None: ...

    @trilith.api
    def rich(self, point: Point, day: date, size: Size, mode: Literal["fast", "good"], either: int | str) -> None: ...

    @trilith.api
    def picture(self, image: Image.Image, mask: Image.Image | None = None, quality: int = 1) -> None: ...

    @trilith.api
    def pictures(self, pages: list[Image.Image]) -> None: ...

    @trilith.api
    def array(self, x: NDArray[np.float32], scale: float = 1.0) -> None: ...

    @trilith.api
    def whole(self, text: str, /) -> None: ...

    @trilith.api
    def nothing(self) -> None: ...


def _operations() -> dict[str, Operation]:
    document = msgspec.json.decode(msgspec.json.encode(openapi_document(describe(Typed))))
    return {operation.method: operation for operation in read_operations(document, "here")}


OPERATIONS = _operations()


def read(method: str, *texts: str, stdin: bytes = b"") -> dict[str, Any]:
    return read_arguments(OPERATIONS[method], texts, lambda: stdin)


@pytest.mark.parametrize(
    ("method", "texts", "expected"),
    [
        ("scalars", ["count=5"], {"count": 5}),
        ("scalars", ["count=5", "name=5", "ratio=2", "sure=true"], {"count": 5, "name": "5", "ratio": 2, "sure": True}),
        ("scalars", ["count=1", "name="], {"count": 1, "name": ""}),
        ("scalars", ["count=1", "name=a=b"], {"count": 1, "name": "a=b"}),
        ("scalars", ["count=1", "name=@@home"], {"count": 1, "name": "@home"}),
        ("scalars", ["count=1", "any=[1]"], {"count": 1, "any": [1]}),
        ("scalars", ["count=1", "any=a word"], {"count": 1, "any": "a word"}),
        ("scalars", ['{"count": 2, "name": "x"}'], {"count": 2, "name": "x"}),
        ("scalars", ['{"name": "x"}', "count=3"], {"count": 3, "name": "x"}),
        ("lists", ["tags=a"], {"tags": ["a"]}),
        ("lists", ["tags=a", "tags=5"], {"tags": ["a", "5"]}),
        ("lists", ['tags=["a", "b"]', "numbers=5"], {"tags": ["a", "b"], "numbers": [5]}),
        ("lists", ["tags=[]", "numbers=1", "numbers=2"], {"tags": [], "numbers": [1, 2]}),
        ("lists", ["tags=[]", "numbers=null"], {"tags": [], "numbers": None}),
        (
            "rich",
            ['point={"x": 1, "y": 2}', "day=2026-01-02", "size=2", "mode=good", "either=5"],
            {"point": {"x": 1, "y": 2}, "day": "2026-01-02", "size": 2, "mode": "good", "either": "5"},
        ),
        ("array", ["x=[[1, 2]]", "scale=0.5"], {"x": [[1, 2]], "scale": 0.5}),
        ("whole", ["text=a"], {"text": "a"}),
        ("whole", ["a word"], {"text": "a word"}),
        ("nothing", [], {}),
    ],
)
def test_what_is_read(method, texts, expected):
    assert read(method, *texts) == expected


@pytest.mark.parametrize(
    ("method", "texts", "said"),
    [
        ("scalars", [], r"scalars wants count: it is scalars\(count: int"),
        ("scalars", ["coutn=1"], r"no parameter 'coutn'; did you mean count=\.\.\.\?"),
        ("scalars", ["count=one"], r"count: expected int as JSON, got 'one'"),
        ("scalars", ["count=1", "count=2"], r"count is given 2 times; expected once: it is int"),
        ("scalars", ["[1]"], r"expected all arguments as a JSON object, got list"),
        ("scalars", ["five"], r"'five': expected NAME=VALUE, or all arguments as a JSON object"),
        ("scalars", ['{"count": 1}', "count=2"], r"count is given twice"),
        ("scalars", ['{"coutn": 1}'], r"did you mean count"),
        ("picture", ["image=page.png"], r"image takes an image: write image=@FILE, or image=@- .*; got 'page.png'"),
        ("picture", ["image=@none.png"], r"image: there is no file none.png"),
        ("picture", ["image=@."], r"image: \. is a folder"),
        ("picture", ["image=@-", "mask=@-"], r"mask: standard input \(@-\) is read once"),
        ("array", ["x=1,2"], r"x takes an array: nested lists in JSON, or x=@FILE"),
    ],
)
def test_what_is_refused(method, texts, said):
    with pytest.raises(InvalidInput, match=said):
        read(method, *texts)


def test_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("page.png").write_bytes(b"png")
    Path("all.json").write_text('{"count": 7}')
    Path("name.txt").write_text("from a file")
    np.save("x.npy", np.ones(3, np.float32))
    assert read("picture", "image=@page.png", "quality=3") == {"image": Path("page.png"), "quality": 3}
    assert read("picture", "@page.png") == {"image": Path("page.png")}
    assert read("picture", "image=@page.png", "mask=null") == {"image": Path("page.png"), "mask": None}
    assert read("pictures", "pages=@page.png", "pages=@page.png") == {"pages": [Path("page.png")] * 2}
    assert read("scalars", "@all.json") == {"count": 7}
    assert read("scalars", "count=1", "name=@name.txt") == {"count": 1, "name": "from a file"}
    assert read("array", "x=@x.npy")["x"].tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(InvalidInput, match=r"did you mean page\.png\?"):
        read("picture", "image=@pag.png")


def test_standard_input_is_bytes_text_or_json():
    assert read("picture", "image=@-", stdin=b"\x89PNG") == {"image": b"\x89PNG"}
    assert read("scalars", "@-", stdin=b'{"count": 1}') == {"count": 1}
    assert read("scalars", "count=@-", stdin=b"12") == {"count": 12}
    assert read("scalars", "count=1", "name=@-", stdin="wörd".encode()) == {"count": 1, "name": "wörd"}
    with pytest.raises(InvalidInput, match="is not UTF-8 text"):
        read("scalars", "count=1", "name=@-", stdin=b"\xff")


@given(st.text().filter(lambda text: not text.startswith("@")))
def test_any_text_is_itself(text):
    assert read("scalars", "count=1", f"name={text}")["name"] == text


@given(st.integers(), st.lists(st.text().filter(lambda text: not text.startswith("@")), min_size=2))
def test_json_and_repeated_texts(count, tags):
    assert read("scalars", f"count={count}") == {"count": count}
    assert read("lists", *(f"tags={tag}" for tag in tags)) == {"tags": tags}


@given(st.sampled_from(sorted(OPERATIONS)), st.lists(st.text(max_size=12), max_size=4))
def test_whatever_is_typed_is_read_or_refused_in_words(method, texts):
    known = {parameter.name for parameter in OPERATIONS[method].parameters}
    with contextlib.suppress(InvalidInput):
        assert set(read(method, *texts)) <= known

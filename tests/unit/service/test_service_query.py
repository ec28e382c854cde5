"""The query string of a POST: scalars beside a raw body, and nothing that is silently ignored."""

import numpy as np
import pytest
from numpy.typing import NDArray

import trilith
from trilith.errors import InvalidInput
from trilith.service import describe, openapi_document
from trilith.service.codecs import arrays

RAW = "application/octet-stream"
NPY = "application/x-npy"
FORM = "multipart/form-data; boundary=b"


@trilith.service
class Query:
    @trilith.api
    async def size(self, data: bytes, times: int = 1, unit: str = "b") -> str:
        return f"{len(data) * times} {unit}"

    @trilith.api
    async def scale(self, x: NDArray[np.float32], by: float = 1.0, steps: list[int] = []) -> NDArray[np.float32]:  # noqa: B006
        return x * np.float32(by) * (1 + len(steps))

    @trilith.api
    async def plain(self, a: int, b: str = "b") -> str:
        return b * a

    @trilith.api
    async def nothing(self) -> int:
        return 1


@pytest.fixture
def ask(serve):
    def call(method, query, body=b"", content_type="application/json"):
        async def scenario(hosted):
            call, future = hosted.make(method, body, content_type)
            call.meta = type(call.meta)(**{**_fields(call.meta), "query": query})
            hosted.host.handle(call)
            return (await future).body

        return serve(Query, scenario)

    return call


def _fields(meta):
    return {name: getattr(meta, name) for name in meta.__struct_fields__}


def test_scalars_come_beside_a_raw_body(ask):
    assert ask("size", "times=3&unit=5", b"ab", RAW) == b'"6 5"'
    assert ask("size", "unit=%C3%A9+b", b"ab", RAW) == '"2 é b"'.encode()
    assert ask("scale", "by=2", arrays.to_npy(np.float32([1, 2])), NPY) == b"[2.0,4.0]"


def test_all_that_the_document_lists_is_read(ask):
    paths = openapi_document(describe(Query))["paths"]
    values = {"times": "2", "unit": "k", "by": "3", "steps": "[1,2]"}
    listed = {path: [one["name"] for one in item["post"].get("parameters", [])] for path, item in paths.items()}
    assert listed == {"/size": ["times", "unit"], "/scale": ["by", "steps"], "/plain": [], "/nothing": []}
    assert ask("size", "&".join(f"{name}={values[name]}" for name in listed["/size"]), b"ab", RAW) == b'"4 k"'
    array = arrays.to_npy(np.float32([1, 2]))
    assert ask("scale", "&".join(f"{name}={values[name]}" for name in listed["/scale"]), array, NPY) == b"[9.0,18.0]"


def test_scalars_come_without_a_body(ask):
    assert ask("plain", "a=2&b=c") == b'"cc"'


@pytest.mark.parametrize(
    ("method", "query", "body", "content_type", "message"),
    [
        ("size", "time=3", b"ab", RAW, "the query string has an unknown `time`; expected times, unit"),
        ("size", "times=3&times=4", b"ab", RAW, "the query string twice gives `times`; expected once"),
        ("size", "data=x", b"ab", RAW, "the body and the query string give `data`; expected once"),
        ("size", "data=x", b"", RAW, "`data` cannot be given in the query string"),
        ("size", "times=x", b"ab", RAW, "times: expected an integer, got 'x'"),
        ("size", "unit=%ff", b"ab", RAW, "the query string could not be read"),
        ("size", "&".join(f"a{n}=" for n in range(200)), b"ab", RAW, "the query string could not be read"),
        ("plain", "b=c", b"", "application/json", "neither a body nor the query string gives `a`"),
        ("plain", "b=c", b'{"a": 1}', "application/json", "the query string `b=c` is not read beside application/json"),
        ("size", "times=2", b"--b--", FORM, "the query string `times=2` is not read beside multipart/form-data"),
        ("nothing", "a=1", b"", "", "the query string has an unknown `a`; expected none"),
        ("nothing", "a=1", b"{}", "application/json", "is not read beside"),
    ],
)
def test_nothing_is_silently_ignored(ask, method, query, body, content_type, message):
    with pytest.raises(InvalidInput) as caught:
        ask(method, query, body, content_type)
    assert caught.value.message.startswith(f"Query.{method}: ")
    assert message in caught.value.message

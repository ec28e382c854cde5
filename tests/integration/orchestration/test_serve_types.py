"""Every kind of type through a real server and its client; and what is sent by those who mean no good."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import inspect
import io
import re
import socket
import struct
import uuid
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from live_server import APPS
from PIL import Image

import trilith
from trilith.errors import InvalidInput, PayloadTooLarge, UnsupportedMediaType

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
INTS = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ARRAYS = hnp.arrays("float32", hnp.array_shapes(max_dims=3, max_side=3), elements={"allow_nan": False})
ROWS = st.lists(st.fixed_dictionaries({"n": INTS, "f": FLOATS, "s": TEXT}), min_size=1, max_size=3)
PIXELS = st.binary(min_size=12, max_size=12).map(lambda raw: Image.frombytes("RGB", (2, 2), raw))


def same(one, two) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == two.dtype and np.array_equal(one, two)
    if isinstance(one, Image.Image):
        return one.tobytes() == two.tobytes()
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return one.equals(two) if hasattr(one, "equals") else one == two


@pytest.mark.timeout(120)
def test_what_the_client_gives_it_gets_back(serve, tmp_path):
    server = serve(f"{APPS}/kinds.py:Kinds")
    cases = {
        "text": TEXT,
        "tree": st.recursive(
            st.fixed_dictionaries({"value": INTS, "children": st.just([])}),
            lambda inner: st.fixed_dictionaries({"value": INTS, "children": st.lists(inner, max_size=2)}),
            max_leaves=4,
        ),
        "animal": st.fixed_dictionaries({"kind": st.just("cat"), "lives": st.integers(1, 9)}),
        "anything": st.recursive(st.none() | st.booleans() | INTS | TEXT, st.lists, max_leaves=4),
        "array": ARRAYS,
        "batched_arrays": ARRAYS,
        "table": ROWS.map(pa.Table.from_pylist),
        "batched": ROWS.map(pd.DataFrame),
        "column": st.lists(INTS, min_size=1, max_size=3).map(pd.Series),
        "picture": PIXELS,
        "pictures": st.lists(PIXELS, min_size=1, max_size=2),
        "raw": st.binary(max_size=50),
    }
    with trilith.client(f"127.0.0.1:{server.http}") as kinds:
        for name, values in cases.items():

            @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(values)
            def check(value):
                assert same(getattr(kinds, name)(value), value)  # noqa: B023  called at once

            check()
        now = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
        many = {
            "identity": uuid.UUID(int=7),
            "when": now,
            "much": decimal.Decimal("1.50"),
            "numbers": {"a": [1.5, None]},
        }
        found = kinds.many(many)
        assert (found["identity"], found["much"], found["numbers"]) == (
            str(uuid.UUID(int=7)),
            "1.50",
            {"a": [1.5, None]},
        )
        people = pd.DataFrame({"name": ["Ann"], "age": [3], "height": [1.5], "left": pd.array([None], "Int32")})
        assert kinds.people(people).equals(people)
        looked = kinds.look(Image.new("RGB", (3, 2), (9, 8, 7)))
        assert looked["picture"].getpixel((0, 0)) == (9, 8, 7)
        assert looked["mean"].tolist() == [9.0, 8.0, 7.0]
        assert looked["table"].to_dict("list") == {"width": [3]}
        assert looked["note"] == "RGB"
        assert "source: pathlib.Path | bytes | str" in str(inspect.signature(kinds.either))
        note = tmp_path / "note.txt"
        note.write_text("words")
        assert [kinds.either("words"), kinds.either(note), kinds.either()] == ["words", "words in a file", "None"]
        assert kinds.split(b"\xff\0") == (b"\xff\0", 2)
        assert kinds.files([Path(__file__)] * 2, note="x") == [Path(__file__).stat().st_size] * 2


def png_bomb() -> bytes:
    """40,000 x 40,000 pixels in a few kilobytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 40_000, 40_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def parquet_bomb() -> bytes:
    """A gibibyte of text and more, as one text and how often it stands there."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 16, np.int32)), ["x" * (1 << 16)])
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": text}), sink, compression="zstd")
    return sink.getvalue()


def arrow_bomb() -> bytes:
    sink = io.BytesIO()
    table = pa.table({"a": np.zeros(1 << 20)})
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for _ in range(200):
            writer.write_table(table)
    return sink.getvalue()


@pytest.mark.timeout(120)
def test_what_lies_about_itself_is_refused_and_costs_nothing(serve):
    server = serve(f"{APPS}/kinds.py:Kinds")
    [pid] = server.replica_pids("Kinds")
    server.post("/column", {"column": [1]})  # pandas is loaded now
    before = psutil.Process(pid).memory_info().rss
    arrow, parquet = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
    whole = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(1000)), "s": [f"text {n}" for n in range(1000)]}), whole)
    for path, kind, body, status, message in (
        ("/picture", "image/png", png_bomb(), 400, "too many pixels|at most"),
        ("/picture", "image/png", b"\x89PNG\r\n\x1a\nrest", 400, "image"),
        ("/table", parquet, parquet_bomb(), 413, "would take"),
        ("/table", arrow, arrow_bomb(), 413, "would take"),
        ("/table", parquet, whole.getvalue()[:-100], 400, "Parquet"),
        ("/table", parquet, whole.getvalue()[:99] + b"\xff" * 99 + whole.getvalue()[198:], 400, "Parquet|broken"),
        ("/table", arrow, b"\xff\xff\xff\xff\xff\xff\xff\x7f", 400, "broken"),
        ("/table", "text/csv", b"a" + b",a" * 5_000_000, 400, "two columns of one name|at most"),
        ("/people", "text/csv", b"name,age\nAnn,3\n", 400, "column `height` is missing"),
        ("/sound", "audio/wav", b"MZ\x90\0program", 415, "holds"),
        ("/sound", "text/html", b"<script>", 415, "got text/html"),
        ("/number", "application/x-msgpack", b"\x81", 415, "reads application/json"),
        ("/number", "application/json; charset=utf-16", b"{}", 415, "JSON is UTF-8"),
        ("/number", "application/json", b"", 400, "the body is empty"),
        ("/files", "multipart/form-data; boundary=b", b'--b\r\ncontent-disposition: form-data; name="f', 400, "form"),
    ):
        found, answer = server.post(path, body=body, headers={"content-type": kind}, timeout=60)
        assert (found, answer["error"]["code"] != "service_failed") == (status, True), (path, answer)
        assert re.search(message, answer["error"]["message"]), answer
    assert server.post("/number", {"x": 1}, headers={"accept": "image/png"})[0] == 406
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.http), 20)) as connection:  # a body cut off
        connection.sendall(
            b"POST /table HTTP/1.1\r\nhost: x\r\ncontent-type: text/csv\r\ncontent-length: 99\r\n\r\na,b\n"
        )
    assert server.replica_pids("Kinds") == [pid]
    assert psutil.Process(pid).memory_info().rss - before < 400 << 20
    assert server.post("/number", {"x": 1, "z": True}) == (200, 1.0)


def test_the_client_raises_what_the_server_says(serve):
    server = serve(f"{APPS}/kinds.py:Kinds")
    with trilith.client(f"127.0.0.1:{server.http}") as kinds:
        with pytest.raises(InvalidInput, match="column `age` is missing"):
            kinds.people(pd.DataFrame({"name": ["a"]}))
        with pytest.raises(InvalidInput, match=r"shape \(any, 2\), got \(1, 3\)"):
            kinds.points(np.zeros((1, 3), np.int64))
        with pytest.raises(UnsupportedMediaType, match="expected a file of the type audio"):
            kinds.sound(Path(__file__))
        with pytest.raises(InvalidInput, match="cannot be sent"):
            kinds.table(pd.DataFrame({"a": [1, "x"]}))
        with pytest.raises(PayloadTooLarge):
            kinds.table(pa.table({"a": pa.nulls(1 << 28)}))

"""Frames: JSON, CSV, Parquet, Arrow; declared columns; and what claims more than it holds."""

import datetime
import io
import json
import struct
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal, assert_series_equal

import trilith
from trilith.errors import InvalidConfig, InvalidInput, PayloadTooLarge, UnsupportedMediaType
from trilith.service import spec_of
from trilith.service.codecs import arrow_messages, media, native, parquet_pages, table_files, tables
from trilith.service.codecs.request import RequestDecoder
from trilith.service.codecs.result import ResultDecoder, ResultEncoder
from trilith.wire.calls import NATIVE_CONTENT_TYPE

COLUMNS = {
    "count": "int64",
    "share": "float64",
    "good": "bool",
    "name": "str",
    "at": "datetime64[us]",
    "left": "int32?",
}
Declared = Annotated[pd.DataFrame, trilith.Frame(columns=COLUMNS)]
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0"), max_size=5)
CELLS = {
    "count": st.integers(-(2**63), 2**63 - 1),
    "share": st.floats(allow_infinity=False, allow_nan=False) | st.none(),
    "good": st.booleans(),
    "name": TEXT,
    "at": st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)),
    "left": st.integers(-(2**31), 2**31 - 1) | st.none(),
}
SCHEMA = pa.schema(
    {
        "count": pa.int64(),
        "share": pa.float64(),
        "good": pa.bool_(),
        "name": pa.string(),
        "at": pa.timestamp("us"),
        "left": pa.int32(),
    }
)
ROWS = st.lists(st.fixed_dictionaries(CELLS), max_size=4)


def codecs(annotation: Any, batched: bool = False) -> tuple[RequestDecoder, ResultEncoder, ResultDecoder]:
    def same(x):
        return x

    whole = list[annotation] if batched else annotation
    same.__annotations__ = {"x": whole, "return": whole}
    decorated = trilith.service(batch=trilith.Batch())(same) if batched else trilith.service(same)
    signature = spec_of(decorated).methods["same"].signature
    return (
        RequestDecoder(signature, "same"),
        ResultEncoder(signature.result, "same"),
        ResultDecoder(signature, "same"),
    )


def decode(annotation: Any, body: bytes, content_type: str = media.JSON) -> Any:
    arguments = codecs(annotation)[0].decode(content_type, [body])
    return next(iter([*arguments.args, *arguments.kwargs.values()]))


def framed(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    frame = table.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)
    return frame if frame["left"].isna().any() else frame.astype({"left": "int32"})


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
@pytest.mark.parametrize("content_type", [media.JSON, *media.FRAMES])
def test_a_frame_goes_out_and_in_as_it_is(content_type, batched):
    decoder, encoder, _ = codecs(Declared, batched)

    @settings(max_examples=8, deadline=None)
    @given(ROWS)
    def check(rows):
        frame = framed(rows)
        written, [body] = encoder.encode(frame, content_type)
        assert written == content_type
        body = b'{"x": ' + bytes(body) + b"}" if content_type == media.JSON else body
        [found] = decoder.decode(content_type, [body]).kwargs.values()
        assert_frame_equal(found, frame)

    check()


@pytest.mark.parametrize("orient", ["records", "columns", "split"])
def test_each_form_in_json(orient):
    annotation = Annotated[pd.DataFrame, trilith.Frame(columns=COLUMNS, orient=orient)]
    decoder, encoder, _ = codecs(annotation)

    @settings(max_examples=8, deadline=None)
    @given(ROWS)
    def check(rows):
        frame = framed(rows)
        _, [body] = encoder.encode(frame, media.JSON)
        assert isinstance(json.loads(body), list) == (orient == "records")
        [found] = decoder.decode(media.JSON, [b'{"x": ' + bytes(body) + b"}"]).kwargs.values()
        assert_frame_equal(found, frame)

    check()


@settings(max_examples=8, deadline=None)
@given(ROWS)
def test_a_frame_goes_from_service_to_service_as_it_is(rows):
    for annotation, value in ((Declared, framed(rows)), (pa.Table, pa.Table.from_pylist(rows, schema=SCHEMA))):
        decoder, encoder, results = codecs(annotation)
        same = assert_frame_equal if annotation is Declared else lambda a, b: a.equals(b) or pytest.fail("differs")
        [found] = decoder.decode(NATIVE_CONTENT_TYPE, native.pack_call((), {"x": value})).kwargs.values()
        same(found, value)
        same(results.decode(encoder.encode_native(value)), value)


def test_frames_inside_other_types():
    frame = pd.DataFrame({"a": [1, 2]})
    decoder, encoder, results = codecs(dict[str, pd.DataFrame])
    _, [body] = encoder.encode({"one": frame})
    assert json.loads(body) == {"one": [{"a": 1}, {"a": 2}]}
    [found] = decoder.decode(media.JSON, [b'{"x": ' + bytes(body) + b"}"]).kwargs.values()
    assert_frame_equal(found["one"], frame)
    assert_frame_equal(results.decode(encoder.encode_native({"one": frame}))["one"], frame)


@pytest.mark.parametrize("content_type", [media.JSON, *media.FRAMES])
def test_a_series_is_a_column(content_type):
    decoder, encoder, _ = codecs(pd.Series)
    series = pd.Series([1, 2, 3])
    written, [body] = encoder.encode(series, content_type)
    assert written == content_type
    body = b'{"x": ' + bytes(body) + b"}" if content_type == media.JSON else body
    [found] = decoder.decode(content_type, [body]).kwargs.values()
    assert_series_equal(found, series)


def test_lists_of_frames_and_none():
    decoder, encoder, _ = codecs(list[pd.DataFrame] | None)
    frame = pd.DataFrame({"a": ["x"]})
    _, [body] = encoder.encode([frame, frame])
    [found] = decoder.decode(media.JSON, [b'{"x": ' + bytes(body) + b"}"]).kwargs.values()
    assert [list(one["a"]) for one in found] == [["x"], ["x"]]
    assert encoder.encode(None) == (media.JSON, [b"null"])


def test_a_form_has_frames_as_files_and_as_json():
    form = b""
    for name, kind, body in (
        ("data.csv", b"", b"a,b\n1,x\n"),
        ("data", b"content-type: text/csv\r\n", b"a,b\n1,x\n"),
        ("data", b"content-type: application/json\r\n", b'[{"a": 1, "b": "x"}]'),
        ("data", b"", table_files.to_file(pa.table({"a": [1], "b": ["x"]}), media.PARQUET)),
        ("data", b"", table_files.to_file(pa.table({"a": [1], "b": ["x"]}), media.ARROW)),
        ("data", b"", table_files.to_file(pa.table({"a": [1], "b": ["x"]}), media.ARROW_FILE)),
    ):
        head = f'--B\r\ncontent-disposition: form-data; name="x"; filename="{name}"\r\n'.encode()
        form += head + kind + b"\r\n" + body + b"\r\n"
    found = decode(list[pa.Table], form + b"--B--\r\n", "multipart/form-data; boundary=B")
    assert [one.to_pylist() for one in found] == [[{"a": 1, "b": "x"}]] * 6


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (pd.Index([5, 9]), [{"a": 1}, {"a": 2}]),
        (pd.Index(["u", "v"], name="who"), [{"who": "u", "a": 1}, {"who": "v", "a": 2}]),
        (pd.Index(["u", "v"]), [{"index": "u", "a": 1}, {"index": "v", "a": 2}]),
        (pd.MultiIndex.from_tuples([(1, "u"), (2, "v")]), "an index of mixed values without a name"),
        (pd.Index(["u", "v"], name="a"), "cannot be sent as columns"),
    ],
)
def test_an_index_is_columns_when_it_is_no_row_numbers(index, expected):
    encoder = codecs(pd.DataFrame)[1]
    frame = pd.DataFrame({"a": [1, 2]}, index=index)
    if isinstance(expected, list):
        assert json.loads(encoder.encode(frame)[1][0]) == expected
    else:
        with pytest.raises(TypeError, match=expected):
            encoder.encode(frame)


def test_what_describe_gives_is_sent():
    rows = json.loads(codecs(pd.DataFrame)[1].encode(pd.DataFrame({"a": [1.0, 3.0]}).describe())[1][0])
    assert {row["index"]: row["a"] for row in rows}["mean"] == 2.0


def test_a_series_with_texts_as_its_index_says_what_to_do():
    with pytest.raises(TypeError, match=r"returned a Series that cannot be sent: an index of string values without"):
        codecs(pd.Series)[1].encode(pd.Series([1, 2], index=["u", "v"]))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"index": [1]}, index=["u"]), "a column has the name `index`"),
        (pd.DataFrame({"a": [1, "x"]}), "cannot be sent"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns of one name|[Dd]uplicate"),
        (pd.DataFrame([[1]], columns=[("a", "b")]), "names of columns are text or integers"),
        (pd.DataFrame({"a": pd.period_range("2020", periods=1)}), "cannot be sent"),
        (pa.table({"a": [1]}), "expected a pandas.DataFrame, got .*Table"),
        ([{"a": 1}], "expected a pandas.DataFrame, got list"),
    ],
)
def test_what_cannot_be_sent_is_the_services_mistake(frame, message):
    with pytest.raises(TypeError, match=message):
        codecs(pd.DataFrame)[1].encode(frame, media.ARROW)


def test_what_json_has_no_word_for():
    encoder = codecs(pa.Table)[1]
    table = pa.table(
        {
            "time": pa.array([datetime.datetime(2020, 1, 2, 3, 4, 5)], pa.timestamp("ns")),
            "day": pa.array([datetime.date(2020, 1, 2)]),
            "raw": pa.array([b"\xff"]),
            "kind": pa.array(["x"]).dictionary_encode(),
            "nan": pa.array([float("nan")]),
            "half": pa.array([np.float16(0.5)], pa.float16()),
        }
    )
    assert json.loads(encoder.encode(table)[1][0]) == [
        {
            "time": "2020-01-02T03:04:05.000000000",
            "day": "2020-01-02",
            "raw": "/w==",
            "kind": "x",
            "nan": None,
            "half": 0.5,
        }
    ]
    with pytest.raises(TypeError, match="a duration has no form in JSON"):
        encoder.encode(pa.table({"a": pa.array([1], pa.duration("s"))}))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'[{"count": 1}]',
            "column `share` is missing.*column `left` is missing.*The frame has the columns count: int64",
        ),
        (b'[{"a": 1}, {"b": 1}]', "rows of the same columns; row 1 differs in a, b"),
        (b'{"a": [1], "b": [1, 2]}', "equal lengths, got from 1 to 2"),
        (b'{"a": [1, "x"]}', "column `a`: expected numbers, text or bools, all of one kind; got integers, text"),
        (b'{"a": [[1]]}', "column `a`: .*got lists"),
        (b'{"a": [1e999]}', "too large"),
        (b'{"a": [99999999999999999999]}', "64 bits"),
        (b'{"columns": ["a", "a"], "data": []}', "different names"),
        (b'{"columns": ["a"], "data": [[1, 2]]}', "rows of 1 values"),
        (b'{"a": 1}', "expected a frame as a list of objects"),
        (b"[1]", "expected a frame as"),
        (b'"a"', "expected a frame, got str"),
    ],
)
def test_what_is_wrong_in_json_is_named(body, message):
    with pytest.raises(InvalidInput, match=f"(?s)^same: .*{message}"):
        decode(Declared, b'{"x": ' + body + b"}")


GOOD = {"count": [1], "share": [1.5], "good": [True], "name": ["x"], "at": ["2020-01-02T03:04:05"], "left": [None]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": [1.5]}, "column `count`: expected int64, got double"),
        ({"count": ["1"]}, "column `count`: expected int64, got string"),
        ({"count": [True]}, "column `count`: expected int64, got bool"),
        ({"count": [None]}, "column `count`: 1 nulls, .*int64\\? would allow them"),
        ({"left": [2**40]}, "column `left`: .*(bounds|range)"),
        ({"at": ["yesterday"]}, "column `at`: "),
        ({"more": [1]}, "column `more` is not known"),
        ({"good": [1], "name": [2]}, "(?s)`good`.*`name`"),
    ],
)
def test_a_frame_with_wrong_columns_is_refused(change, message):
    with pytest.raises(InvalidInput, match=message):
        decode(Declared, json.dumps({"x": GOOD | change}).encode())


def test_columns_are_put_in_order_and_more_may_come():
    annotation = Annotated[pd.DataFrame, trilith.Frame(columns={"a": int, "b": np.float32}, extra=True)]
    found = decode(annotation, b'{"x": [{"c": "z", "b": 1, "a": 2}]}')
    assert list(found.columns) == ["a", "b", "c"]
    assert found.dtypes["b"] == np.float32
    with pytest.raises(InvalidInput, match="too large for float32"):
        decode(annotation, b'{"x": [{"b": 1e300, "a": 2}]}')
    assert list(decode(Annotated[pd.DataFrame, trilith.Frame(["b", "a"])], b'{"x": [{"a": 1, "b": 2}]}')) == ["b", "a"]
    empty = decode(Declared, b'{"x": []}')
    assert list(empty.columns) == list(COLUMNS)


def test_integers_with_nulls_stay_integers():
    found = decode(pd.DataFrame, b'{"x": {"a": [9007199254740993, null], "b": [true, null]}}')
    assert found["a"][0] == 9007199254740993
    assert [str(dtype) for dtype in found.dtypes] == ["Int64", "boolean"]


def test_a_frame_may_be_written_to():
    for content_type in (media.ARROW, media.PARQUET):
        body = table_files.to_file(pa.table({"a": [1, 2]}), content_type)
        found = decode(pd.DataFrame, body, content_type)
        found.loc[0, "a"] = 7
        found["a"].to_numpy(copy=True)[0] = 8
        assert list(found["a"]) == [7, 2]


def test_csv_is_read_by_its_columns():
    annotation = Annotated[pd.DataFrame, trilith.Frame(columns={"code": "str", "n": "int64?"})]
    found = decode(annotation, 'code,n\n007,1\n"",\nÄ,3\n'.encode("latin-1"), "text/csv; charset=latin-1")
    assert list(found["code"]) == ["007", "", "Ä"]
    assert found["n"].isna().tolist() == [False, True, False]
    for body, message in (
        (b"", "it is empty"),
        (b"code,n\n1\n", "Expected 2 columns"),
        (b"code,n\nx,y\n", "conversion error"),
        (b"code,code\nx,y\n", "two columns of one name"),
        (b"code,n\n\xff,1\n", "UTF8|utf-8"),
        (b'code,n\n"x', "expected a CSV file|Expected"),
    ):
        with pytest.raises(InvalidInput, match=message):
            decode(annotation, body, media.CSV)
    with pytest.raises(UnsupportedMediaType, match="no charset"):
        decode(annotation, b"code,n\n", "text/csv; charset=klingon")
    with pytest.raises(PayloadTooLarge, match="at most 10,000 columns"):
        decode(pd.DataFrame, ",".join(map(str, range(10_001))).encode(), media.CSV)


def test_what_a_frame_declares_is_looked_at_when_it_is_declared():
    for make, message in (
        (lambda: trilith.Frame(columns={"a": "int65"}), "no dtype of a column"),
        (lambda: trilith.Frame(columns={1: "int64"}), "names of columns are text"),
        (lambda: trilith.Frame(orient="index"), "orient is one of"),
    ):
        with pytest.raises(InvalidConfig, match=message):
            make()
    with pytest.raises(InvalidConfig, match=r"trilith.Shape says nothing of this type; it takes trilith.Frame"):
        codecs(Annotated[pd.DataFrame, trilith.Shape(3)])


# What claims more than it holds


def ipc(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_a_compressed_stream_is_measured_before_it_is_decompressed(monkeypatch):
    table = pa.table({"a": np.zeros(1 << 18), "b": pa.array(np.zeros(1 << 18, np.int8))})
    body = ipc(table, "zstd")
    assert len(body) < 1 << 14
    size_bytes, rows = arrow_messages.decompressed_bytes(memoryview(body))
    assert rows == 1 << 18
    assert size_bytes >= table.nbytes
    assert decode(pa.Table, body, media.ARROW).equals(table)
    monkeypatch.setattr(tables, "MAX_FRAME_BYTES", 1 << 20)
    with pytest.raises(PayloadTooLarge, match="would take"):
        decode(pa.Table, body, media.ARROW)


def test_a_stream_that_lies_about_its_lengths():
    body = ipc(pa.table({"a": np.zeros(1000)}), "zstd")
    at = body.index((8000).to_bytes(8, "little"))
    for claimed in (1 << 40, -7):
        with pytest.raises(InvalidInput, match=r"would take|negative"):
            decode(pa.Table, body[:at] + struct.pack("<q", claimed) + body[at + 8 :], media.ARROW)


def test_offsets_that_point_elsewhere_are_seen():
    body = ipc(pa.table({"a": ["abc", "def"]}))
    at = body.index(struct.pack("<3i", 0, 3, 6))
    for offsets in ((0, 3, 1 << 20), (0, 6, 3), (-1 << 20, 3, 6)):
        with pytest.raises(InvalidInput, match=r"the frame is broken|expected a stream"):
            decode(pd.DataFrame, body[:at] + struct.pack("<3i", *offsets) + body[at + 12 :], media.ARROW)


def test_many_rows_in_few_bytes():
    nulls = pa.table({"a": pa.nulls(1 << 28)})
    with pytest.raises(PayloadTooLarge, match="would take"):
        decode(pd.DataFrame, ipc(nulls), media.ARROW)
    long = pa.table({"a": pa.DictionaryArray.from_arrays(np.zeros(1 << 12, np.int8), ["x" * (1 << 20)])})
    with pytest.raises(PayloadTooLarge, match="would take"):
        decode(pd.DataFrame, ipc(long), media.ARROW)


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def test_a_parquet_file_is_measured_by_its_pages(monkeypatch):
    table = pa.table({"a": np.zeros(1 << 16), "b": ["x" * 100] * (1 << 16)})
    body = parquet(table, compression="zstd")
    assert len(body) < 1 << 12
    assert decode(pa.Table, body, media.PARQUET).equals(table)
    monkeypatch.setattr(tables, "MAX_FRAME_BYTES", 1 << 22)
    monkeypatch.setattr(table_files, "MAX_FRAME_BYTES", 1 << 22)
    with pytest.raises(PayloadTooLarge, match="would take"):
        decode(pa.Table, body, media.PARQUET)


def test_pages_are_counted_as_the_library_writes_them():
    table = pa.table({"a": list(range(10_000)), "s": [f"text {n % 7}" for n in range(10_000)]})
    for options in ({}, {"data_page_version": "2.0"}, {"use_dictionary": False}, {"row_group_size": 100}):
        body = parquet(table, **options)
        metadata = pq.ParquetFile(io.BytesIO(body)).metadata
        for group in range(metadata.num_row_groups):
            for index in range(metadata.num_columns):
                column = metadata.row_group(group).column(index)
                start = column.dictionary_page_offset or column.data_page_offset
                pages = parquet_pages.page_sizes(memoryview(body), start, column.total_compressed_size)
                assert pages.values == column.num_values
                assert (pages.dictionary_bytes > 0) == bool(column.dictionary_page_offset)
                assert pages.size_bytes <= column.total_uncompressed_size


@pytest.mark.parametrize("kind", [media.PARQUET, media.ARROW, media.ARROW_FILE, media.CSV])
def test_damaged_files_are_refused_in_words(kind):
    table = pa.table({"a": [1, 2, 3], "s": ["x", "y", None], "c": pa.array(["u", "v", "u"]).dictionary_encode()})
    whole = ipc(table, "lz4") if kind == media.ARROW else table_files.to_file(table, kind)
    decoder = codecs(pd.DataFrame)[0]
    refused: list[str] = []

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def check(data):
        at = data.draw(st.integers(0, len(whole) - 1))
        cut = data.draw(st.booleans())
        damaged = whole[:at] if cut else whole[:at] + data.draw(st.binary(min_size=1, max_size=8)) + whole[at + 4 :]
        try:
            [found] = decoder.decode(kind, [damaged]).kwargs.values()
        except InvalidInput as error:
            refused.append(error.message)
        else:
            assert isinstance(found, pd.DataFrame)
            repr(found)

    check()
    assert refused
    assert all(message.startswith("same: x: ") for message in refused)


def test_names_inside_of_a_column_are_looked_at_too():
    whole = ipc(pa.table({"a": [{"inside": 1}]}))
    with pytest.raises(InvalidInput, match="utf-8"):
        decode(pa.Table, whole.replace(b"inside", b"insid\xff"), media.ARROW)
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(InvalidInput, match="two columns of the name `x`"):
        decode(pa.Table, ipc(pa.table({"a": twice})), media.ARROW)


def test_extension_types_are_not_read():
    table = pa.table({"a": pa.array([b"x" * 16], pa.uuid())})
    with pytest.raises(InvalidInput, match="is not read"):
        decode(pa.Table, ipc(table), media.ARROW)

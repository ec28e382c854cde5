"""Every reader of octets or texts from outside: what it is given when all is well, and how it may refuse the rest."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import gzip
import io
import shutil
import tarfile
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
from hpack import Encoder
from numpy.typing import NDArray
from PIL import Image

import trilith
from trilith.config import parse_yaml
from trilith.core.request import InferRequest
from trilith.errors import InvalidConfig, InvalidInput, PayloadTooLarge, SetupError, TrilithError
from trilith.runtime.backends.python.unpacking import unpack
from trilith.runtime.model_convert import pbtxt_to_yaml, yaml_to_pbtxt
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.sources.reference import parse_source
from trilith.service.codecs import frames, media
from trilith.service.codecs.images import decode_image
from trilith.service.codecs.multipart import parse_form
from trilith.service.kinds import Kind, ValueType
from trilith.service.spec import spec_of
from trilith.wire import frames as transport
from trilith.wire.batches import BatchItem, decode_batch, encode_batch
from trilith.wire.calls import CallMeta, pack_meta, unpack_call, unpack_result
from trilith.wire.exchange import (
    ExchangeHead,
    pack_answer,
    pack_close,
    pack_head,
    unpack_answer,
    unpack_close,
    unpack_head,
)
from trilith.wire.frame_reader import FrameReader
from trilith.wire.grpc_compression import inflate
from trilith.wire.grpc_messages import Compressed, MessageReader
from trilith.wire.grpc_request import call_head
from trilith.wire.http1 import HttpLimits, RequestReader
from trilith.wire.http2 import Http2Connection, Http2Limits
from trilith.wire.http2 import frames as http2
from trilith.wire.http2.errors import ConnectionFault
from trilith.wire.http2.header_decoder import HeaderDecoder
from trilith.wire.http2.request_head import MalformedHeaders
from trilith.wire.json_lines import LineSplitter
from trilith.wire.sse import EventReader
from trilith.wire.tensors import pack_request, unpack_request
from trilith.wire.websocket import Closing, WebSocketReader, WebSocketViolation
from trilith.wire.websocket_deflate import Deflate, agreed

_MOST_BYTES = 1 << 16
_FRAMES = transport.FrameLimits(max_frame_bytes=4 << 20, max_meta_bytes=1 << 20, max_buffers=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One reader.

    Attributes:
        name: as CONTRIBUTING lists it.
        samples: what it reads without a complaint.
        read: reads octets.
        refusals: what it may raise.
        spice: octets that mean something to it, for the damage.
        inputs: how many damaged inputs it gets in every run of the tests, ...
        inputs_full: ... and in the full ones.
    """

    name: str
    samples: Sequence[bytes]
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    spice: bytes
    inputs: int
    inputs_full: int


class _Sink:
    """Takes what a request reader finds."""

    def head_received(self, reader: RequestReader) -> None:
        assert len(reader.headers) <= HttpLimits().max_headers

    def body_received(self, chunk: bytes) -> None:
        assert chunk

    def message_received(self) -> None:
        """Whole."""


def _http1(octets: bytes) -> None:
    reader = RequestReader(_Sink(), HttpLimits(max_body_bytes=1000))
    half = len(octets) // 2
    for piece in (octets[:half], octets[half:]):
        if reader.feed(piece) is not None:
            return


def _http2(octets: bytes) -> None:
    connection = Http2Connection(Http2Limits(max_header_list_bytes=4096), now=0.0)
    half = len(octets) // 2
    for piece in (octets[:half], octets[half:]):
        connection.receive(piece, 0.0)
    written = connection.take_output(1 << 20)
    at = 0
    while at < len(written) and octets.startswith(http2.PREFACE):  # what we answer is frames, whatever came then
        at += 9 + int.from_bytes(written[at : at + 3], "big")
    assert at == len(written) or not octets.startswith(http2.PREFACE)


def _hpack(octets: bytes) -> None:
    decoder = HeaderDecoder(max_list_bytes=4096)
    for block in octets.split(b"|||"):
        fields = decoder.decode(block)
        assert sum(len(name) + len(value) + 32 for name, value in fields.fields) <= 4096
        call_head(fields.request_head())


def _grpc(octets: bytes) -> None:
    for message in MessageReader(_MOST_BYTES).feed(octets):
        if isinstance(message, Compressed):
            assert len(inflate(message.octets, b"gzip", max_bytes=_MOST_BYTES)) <= _MOST_BYTES
        assert len(message) <= _MOST_BYTES


def _frames(octets: bytes) -> None:
    reader = FrameReader(_FRAMES)
    at = 0
    while at < len(octets) and reader.failure is None:
        room = reader.buffer()
        piece = octets[at : at + len(room)]
        room[: len(piece)] = piece
        at += len(piece)
        for frame in reader.received(len(piece)):
            transport.decode_error(frame.meta)


def _streams(octets: bytes) -> None:
    lines, events = LineSplitter(longest_bytes=1000), EventReader()
    half = len(octets) // 2
    found = [line for chunk in (octets[:half], octets[half:]) for line in lines.push(chunk)] + lines.finish()
    assert all(line and b"\n" not in line for line in found)
    for chunk in (octets[:half], octets[half:]):
        for name, data in events.push(chunk):
            assert name
            assert len(data) <= len(octets)


def _websocket(octets: bytes) -> None:
    """A handshake as `RequestReader` sees it is among the HTTP/1.1 requests."""
    agreed([octets[:40].decode("latin-1")])
    reader = WebSocketReader(max_message_bytes=_MOST_BYTES, deflate=Deflate())
    half = len(octets) // 2
    for piece in (octets[:half], octets[half:]):
        reader.feed(piece)
        while (found := reader.next()) is not None:
            assert not isinstance(found, str | bytes) or len(found) <= _MOST_BYTES
            if isinstance(found, Closing):
                return


def _websocket_sample() -> bytes:
    work = zlib.compressobj(wbits=-15)
    made = (work.compress(b"hello " * 30) + work.flush(zlib.Z_SYNC_FLUSH))[:-4]
    frames = ((0x81, b"text"), (0x01, b"in "), (0x89, b"ping"), (0x80, b"parts"), (0xC2, made), (0x88, b"\x03\xe8bye"))
    return b"".join(bytes((first, 0x80 | len(said))) + bytes(4) + said for first, said in frames)


_EXCHANGE = ExchangeHead(
    method="GET",
    raw_path=b"/ui/%ff",
    root_path="/ui",
    query=b"q",
    headers=((b"a", b"\xff"),),
    client=("::1", 1),
    server=None,
    scheme="http",
    http_version="1.1",
    whole=True,
)


def _envelopes(octets: bytes) -> None:
    errors = []
    readers = (unpack_call, unpack_result, lambda raw: decode_batch(raw, 2), unpack_head, unpack_answer)
    if unpack_close(octets) is not None:
        return
    for read in readers:
        try:
            read(octets)
        except InvalidInput as error:
            errors.append(error)
    if len(errors) == len(readers):
        raise errors[0]


def _tensors(octets: bytes) -> None:
    size = int.from_bytes(octets[:2], "big")
    head, rest = octets[2 : 2 + size], octets[2 + size :]
    request = unpack_request([head, rest])
    for array in request.inputs.values():
        assert array.nbytes <= len(rest) or array.dtype == object


def _pbtxt(octets: bytes) -> None:
    """What is read can be written as the other form, which means the same."""
    text = octets.decode("utf-8", "replace")
    spec = parse_model_pbtxt(text, "m", source="config.pbtxt")
    back = yaml_to_pbtxt(parse_yaml(pbtxt_to_yaml(text, "m", source="a"), source="b"), source="b")
    kinds = dataclasses.replace(spec.instances, groups=())
    again = parse_model_pbtxt(back, "m", source="c")
    assert dataclasses.replace(again, instances=dataclasses.replace(again.instances, groups=())) == dataclasses.replace(
        spec, instances=kinds
    )


def _form(octets: bytes) -> None:
    parse_form("multipart/form-data; boundary=b", octets)


def _picture(octets: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of what it reads nevertheless
        decode_image(octets)


def _frame_of(kind: str) -> Callable[[bytes], object]:
    """Reads a file with a frame, and looks at every value of what it was taken for."""

    def read(octets: bytes) -> None:
        for library in ("table", "dataframe"):
            frame = frames.from_file(octets, kind, ValueType(annotation=None, kind=Kind.FRAME, library=library))
            with contextlib.suppress(TypeError, pa.ArrowInvalid):  # a date of no year that JSON could say
                frames.to_json(frame)

    return read


def _reference(octets: bytes) -> None:
    parse_source(octets.decode("utf-8", "replace"))


def yaml_reader(folder: Path) -> Callable[[bytes], object]:
    """Reads a `model.yaml` as it is read from a repository."""
    path = folder / "model.yaml"

    def read(octets: bytes) -> object:
        path.write_bytes(octets)
        return load_model_yaml(path, "m")

    return read


def archive_reader(folder: Path) -> Callable[[bytes], object]:
    """Unpacks a packed environment, beside which nothing may change."""
    archive, inside = folder / "archive", folder / "up" / "inside"

    def read(octets: bytes) -> None:
        archive.write_bytes(octets)
        inside.mkdir(parents=True)
        try:
            unpack(archive, inside, lambda: None, most_bytes=1 << 20)
        finally:
            shutil.rmtree(inside)
            assert sorted(path.name for path in folder.rglob("*")) == ["archive", "up"]

    return read


def _archives() -> list[bytes]:
    """An archive of a few entries, plain and compressed."""
    found = []
    for mode, form in (("w", tarfile.PAX_FORMAT), ("w:gz", tarfile.GNU_FORMAT)):
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode=mode, format=form) as tar:  # type: ignore[call-overload]  # a text
            for name, kind, link in (
                ("bin", tarfile.DIRTYPE, ""),
                ("bin/python", tarfile.SYMTYPE, "/usr/bin/python3"),
                ("lib/a.py", tarfile.REGTYPE, ""),
                ("lib/" + "long" * 40, tarfile.REGTYPE, ""),
                ("lib/b.py", tarfile.LNKTYPE, "lib/a.py"),
            ):
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size = kind, link, 5 if kind == tarfile.REGTYPE else 0
                tar.addfile(info, io.BytesIO(b"x = 1"))
        found.append(sink.getvalue())
    return found


def _http2_sample() -> bytes:
    encoder = Encoder()
    fields = [(":method", "POST"), (":scheme", "http"), (":path", "/s/M"), ("content-type", "application/grpc")]
    start = http2.PREFACE + http2.settings_frame([(3, 100), (4, 70_000)]) + http2.frame(http2.SETTINGS, http2.ACK, 0)
    calls = b"".join(
        http2.frame(http2.HEADERS, http2.END_HEADERS, number, encoder.encode(fields))
        + http2.frame(http2.DATA, http2.END_STREAM, number, b"\0\0\0\0\5hello")
        for number in (1, 3)
    )
    split = encoder.encode([*fields, ("x-long", "v" * 50)])
    continued = http2.frame(http2.HEADERS, 0, 5, split[:20]) + http2.frame(
        http2.CONTINUATION, http2.END_HEADERS, 5, split[20:]
    )
    rest = http2.frame(http2.PING, 0, 0, b"12345678") + http2.window_update_frame(0, 1000) + http2.reset_frame(5, 8)
    return start + calls + continued + rest


def _hpack_sample() -> bytes:
    encoder = Encoder()
    fields = [(":method", "POST"), (":scheme", "http"), (":path", "/s/M"), ("grpc-timeout", "10S"), ("te", "trailers")]
    return b"|||".join(encoder.encode(fields, huffman=huffman) for huffman in (True, False, True))


def _frame_sample() -> bytes:
    parts = transport.encode_with_buffers(transport.CALL, 7, b"meta", [b"abc", b"x" * 20], _FRAMES)
    small = transport.encode_small(transport.CALL, 8, b"meta", b"buffer", 1, 2, 3.0, 4.0)
    items = transport.encode(transport.ITEM, 7, b"item", flags=transport.FROM_CALLER)
    window = transport.encode(transport.WINDOW, 7, count=64, first=1000.0)
    failed = transport.encode(transport.FAILED, 7, transport.encode_error("bug", "message", 1.0))
    return b"".join(parts) + small + items + window + transport.encode(transport.END, 7) + failed


def _tensor_sample() -> bytes:
    request = InferRequest(model="m", inputs={"x": np.ones((2, 3), np.float32)}, parameters={"a": 1})
    head, tensor = pack_request(request)
    return len(head).to_bytes(2, "big") + bytes(head) + bytes(tensor)


_PBTXT = b"""
name: "m" backend: "identity" max_batch_size: 8 # a comment {
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] optional: true } ]
output { name: "y" data_type: TYPE_STRING dims: 1 label_filename: "l.txt" }
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 100 priority_levels: 3
  default_priority_level: 2 priority_queue_policy { key: 1 value < timeout_action: DELAY max_queue_size: 5 > } }
version_policy { specific { versions: [ 1, 3 ] } }
parameters { key: "k" value { string_value: "v\\n\\101" } }
model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }
"""
_PBTXT_OF_RAGGED = b"""
platform: "onnxruntime_onnx" max_batch_size: 4 default_model_filename: "a.onnx"
input { name: "a" data_type: TYPE_INT64 format: FORMAT_NCHW dims: [ 2, 3 ] reshape { shape: [ 6 ] } }
input { name: "b" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
output { name: "y" data_type: TYPE_FP16 dims: [ 1 ] reshape { shape: [ ] } }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "i" data_type: TYPE_FP32 source_input: "b" }
batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "y" source_input: "b" }
instance_group [ { name: "g" kind: KIND_GPU gpus: [ 0, 1 ] rate_limiter { resources { name: "r" count: 2 } } } ]
optimization { graph { level: 1 } cuda { graphs: true } input_pinned_memory { enable: false } }
dynamic_batching { default_queue_policy { default_timeout_microseconds: 5 allow_timeout_override: true } }
version_policy: { latest { num_versions: 2 } } metric_tags { key: "team" value: "\x6fcr" }
response_cache { enable: true }
model_repository_agents {
  agents { name: "checksum" parameters { key: "MD5:1/a.onnx" value: "0cc1" } } agents { name: "own" } }
parameters { key: "intra_op_thread_count" value { string_value: "2" } } model_transaction_policy { decoupled: false }
"""
_YAML_OF_ALL = b"""
name: m
backend: own
runtime: model.py
inputs: [{name: a, datatype: BYTES, dims: [1], optional: true}, {name: b, dims: [2], ragged: true}]
outputs: [{name: s, reduce: argmax}]
batch_inputs: [{kind: item_shape, targets: [t], source: b, datatype: INT32}]
instances: {count: 2, share_session: false}
batching: {adaptive: true, max_latency_ms: 40}
versions: [1, 3]
session: {intra_op_threads: 2, optimization: extended, entries: {session.x: "1"}, providers: [CPUExecutionProvider]}
source: "pypi:rapidocr==3.10.0#rapidocr/models/det.onnx"
sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
load_timeout_ms: 1800000
agents: [{name: checksum, parameters: {"MD5:1/a.onnx": "0cc1"}}, {name: own}]
pure: false
"""
_YAML_OF_TRITON = b"""
backend: identity
max_batch_size: 8
batching: {preferred: [4], max_wait_ms: 0.5}
versions: {latest: 2}
instances: 3
triton: {optimization: {graph: {level: 1}}, metric_tags: {team: ocr}, model_warmup: [{name: w, batch_size: 1}]}
"""
_YAML = b"""
backend: identity
max_batch_size: 8
inputs: [{name: x, datatype: FP32, dims: [-1, 4], pad: {axis: 0, buckets: [4, 8]}}]
outputs:
  - {name: y, unpad: {axis: 0, input: x}}
batching: {preferred: [4, 8], max_wait_ms: 2.5, preserve_ordering: true}
queue: &q {max_size: 64, timeout_ms: 100, timeout_action: delay}
priority: {levels: 3, default: 2, policies: {1: {timeout_ms: 20}}}
versions: {latest: 2}
parameters: {a: 1, b: "two", c: true}
timeout_ms: 2000.5
"""


def _picture_samples() -> list[bytes]:
    """Small pictures of each format that is read."""
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (7, 9, 3), np.uint8))
    kinds: list[tuple[str, str, dict[str, Any]]] = [
        *(("RGB", kind, {}) for kind in ("PNG", "JPEG", "WEBP", "BMP")),
        *((mode, "PNG", {}) for mode in ("P", "1", "LA", "I;16")),
        ("P", "GIF", {}),
        ("CMYK", "JPEG", {}),
        *(("RGB", "TIFF", {"compression": name}) for name in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits")),
        ("RGB", "TIFF", {"compression": "jpeg"}),
        ("1", "TIFF", {"compression": "group4"}),
        ("F", "TIFF", {}),
    ]
    samples = []
    for mode, kind, options in kinds:
        stream = io.BytesIO()
        image = noise.convert("I").convert(mode) if mode == "I;16" else noise.convert(mode)
        image.save(stream, kind, dpi=(72, 72), **options)
        samples.append(stream.getvalue())
    return samples


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Leaf:
    leaves: list[Leaf]


@dataclass
class Note:
    """One of each kind of field."""

    text: str
    at: datetime.datetime
    took: datetime.timedelta
    anything: Any
    said: dict[str, Any]
    weights: dict[str, float]
    grid: list[list[int]]
    pixels: NDArray[np.float32]
    colour: Colour = Colour.RED
    inner: Leaf | None = None


@trilith.service
class Notes:
    @trilith.api
    async def keep(self, note: Note, /) -> Note:
        return note


def _note(octets: bytes) -> object:
    return spec_of(Notes).grpc.methods["keep"].reader.decode(octets, None)


def _note_sample() -> bytes:
    note = Note(
        text="ünï",
        at=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        took=datetime.timedelta(seconds=-1.5),
        anything=[1, {"a": None}, "x", True],
        said={"b": [2.5]},
        weights={"c": 1.0},
        grid=[[1, 2], []],
        pixels=np.ones((2, 3), np.float32),
        colour=Colour.BLUE,
        inner=Leaf([Leaf([]), Leaf([Leaf([])])]),
    )
    return spec_of(Notes).grpc.methods["keep"].writer.encode(note)


def _table() -> pa.Table:
    day = datetime.date(2020, 1, 2)
    return pa.table(
        {
            "n": [1, 2, None],
            "f": [0.5, None, float("nan")],
            "s": ["a", "", None],
            "c": pa.array(["u", "v", "u"]).dictionary_encode(),
            "l": [[1], [], None],
            "d": [day, None, day],
            "t": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
            "b": [True, False, None],
            "r": [{"x": 1}, {"x": 2}, None],
        }
    )


def _parquet_samples() -> list[bytes]:
    found = []
    for options in ({}, {"data_page_version": "2.0"}, {"compression": "zstd"}, {"use_dictionary": False}):
        sink = io.BytesIO()
        pa.parquet.write_table(_table(), sink, **options)
        found.append(sink.getvalue())
    return found


def _arrow_samples() -> list[bytes]:
    found = []
    for compression in (None, "lz4", "zstd"):
        for opened in (pa.ipc.new_stream, pa.ipc.new_file):
            sink = io.BytesIO()
            with opened(sink, _table().schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(_table())
            found.append(sink.getvalue())
    return found


_FORM = (
    b'--b\r\ncontent-disposition: form-data; name="f"; filename="a.txt"\r\ncontent-type: text/plain\r\n\r\nhello\r\n'
    b'--b\r\ncontent-disposition: form-data; name="note"\r\n\r\nx\r\n--b--\r\n'
)

_ZIPPED = gzip.compress(b"z" * 99, mtime=0)

READERS = (
    Reader(
        name="HTTP/1.1 requests",
        samples=(
            b"GET / HTTP/1.1\r\nhost: h\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
            b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x80abcd",
            b"POST /a?b=%20 HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\nx-own: v\r\n\r\nhello"
            b"GET / HTTP/1.1\r\nhost: h\r\n\r\n",
            b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n",
        ),
        read=_http1,
        refusals=(),
        spice=b"\r\n :;,0123456789abcdefxHT/%\t\0\xff",
        inputs=20_000,
        inputs_full=500_000,
    ),
    Reader(
        name="messages of websockets",
        samples=(_websocket_sample(),),
        read=_websocket,
        refusals=(WebSocketViolation,),
        spice=b"\0\1\2\x08\x09\x0a\x7e\x7f\x80\x81\xc1\xfe\xff",
        inputs=10_000,
        inputs_full=300_000,
    ),
    Reader(
        name="HTTP/2 connections",
        samples=(_http2_sample(),),
        read=_http2,
        refusals=(),
        spice=b"\0\1\2\3\4\5\6\7\x08\x09\x80\xff",
        inputs=5_000,
        inputs_full=200_000,
    ),
    Reader(
        name="HPACK blocks and request heads",
        samples=(_hpack_sample(),),
        read=_hpack,
        refusals=(ConnectionFault, MalformedHeaders),
        spice=b"\0\x20\x3f\x40\x7f\x80\x82\xbe\xff|",
        inputs=20_000,
        inputs_full=500_000,
    ),
    Reader(
        name="gRPC messages",
        samples=(b"\0\0\0\0\5hello\1" + len(_ZIPPED).to_bytes(4, "big") + _ZIPPED,),
        read=_grpc,
        refusals=(InvalidInput,),
        spice=b"\0\1\2\x1f\x8b\xff",
        inputs=20_000,
        inputs_full=500_000,
    ),
    Reader(
        name="frames between processes",
        samples=(_frame_sample(),),
        read=_frames,
        refusals=(),
        spice=b"\0\1\2\x7f\x80\xff",
        inputs=10_000,
        inputs_full=300_000,
    ),
    Reader(
        name="streams of lines and events",
        samples=(b'{"a": 1}\n\r\n"two"\n3', b"\xef\xbb\xbf: hi\ndata: 1\ndata: 2\n\nevent: error\r\ndata: {}\r\n\r\n"),
        read=_streams,
        refusals=(PayloadTooLarge,),
        spice=b"\r\n: data\xef\xbb\xbf\0",
        inputs=10_000,
        inputs_full=300_000,
    ),
    Reader(
        name="envelopes of calls and batches",
        samples=(
            pack_meta(CallMeta("S", "m", "application/json", "id", {"a": "b"}, True, "q=1")),
            encode_batch([BatchItem(pack_meta(CallMeta("S", "m", "x", "id")), 1.5, 1)] * 2),
            pack_head(_EXCHANGE),
            pack_answer(200, [(b"a", b"\xff")]),
            pack_close(1000, "bye"),
        ),
        read=_envelopes,
        refusals=(InvalidInput,),
        spice=b"\x90\x80\xc0\xc2\xdc\xdd\xdf\xff",
        inputs=10_000,
        inputs_full=300_000,
    ),
    Reader(
        name="packed tensors",
        samples=(_tensor_sample(),),
        read=_tensors,
        refusals=(InvalidInput,),
        spice=b"\x90\x80\xc0\xd3\xdd\x7f\xff",
        inputs=10_000,
        inputs_full=300_000,
    ),
    Reader(
        name="config.pbtxt",
        samples=(_PBTXT, _PBTXT_OF_RAGGED),
        read=_pbtxt,
        refusals=(InvalidConfig,),
        spice=b"{}[]<>:;,\"'#\\0123456789-.e\n",
        inputs=1_000,
        inputs_full=200_000,
    ),
    Reader(
        name="model.yaml",
        samples=(_YAML, _YAML_OF_ALL, _YAML_OF_TRITON),
        read=yaml_reader,  # type: ignore[arg-type]  # made with a folder by the test
        refusals=(InvalidConfig,),
        spice=b"{}[]:,-&*!|>'\"#%@`\n 0123456789.e~?",
        inputs=500,
        inputs_full=200_000,
    ),
    Reader(
        name="packed environments",
        samples=_archives(),
        read=archive_reader,  # type: ignore[arg-type]  # as above
        refusals=(SetupError, OSError),
        spice=b"\0/.0123456789ustar\x1f\x8b\xff",
        inputs=200,
        inputs_full=20_000,
    ),
    Reader(
        name="messages of services",
        samples=(_note_sample(),),
        read=_note,
        refusals=(InvalidInput,),
        spice=b"\0\1\x08\x09\x0a\x0b\x0c\x0d\x12\x1a\x22\x7f\x80\xff",
        inputs=10_000,
        inputs_full=300_000,
    ),
    Reader(
        name="multipart forms",
        samples=(_FORM,),
        read=_form,
        refusals=(InvalidInput,),
        spice=b'\r\n-=;"b:\0\xff',
        inputs=5_000,
        inputs_full=200_000,
    ),
    Reader(
        name="pictures",
        samples=_picture_samples(),
        read=_picture,
        refusals=(InvalidInput,),
        spice=b"\0\1\2\3\4\5\6\7\x08\x10\x7f\x80\xd8\xda\xff",
        inputs=5_000,
        inputs_full=200_000,
    ),
    Reader(
        name="frames as Parquet",
        samples=_parquet_samples(),
        read=_frame_of(media.PARQUET),
        refusals=(InvalidInput,),
        spice=b"\0\1\2\x15\x19\x1c\x2c\x7f\x80\xff",
        inputs=500,
        inputs_full=20_000,
    ),
    Reader(
        name="frames as Arrow",
        samples=_arrow_samples(),
        read=_frame_of(media.ARROW),
        refusals=(InvalidInput,),
        spice=b"\0\1\2\4\x08\x10\x7f\x80\xff",
        inputs=500,
        inputs_full=20_000,
    ),
    Reader(
        name="frames as CSV",
        samples=(b'n,s,t\n1,"a, ""b""",2020-01-02\n,,\n-3.5e4,"x\ny",\n',),
        read=_frame_of(media.CSV),
        refusals=(InvalidInput,),
        spice=b'\r\n,"\0\xff\xc3 0e.-',
        inputs=500,
        inputs_full=20_000,
    ),
    Reader(
        name="references of sources",
        samples=(b"pypi:rapidocr==3.10.0#rapidocr/models/det.onnx", b"file:models/a.onnx"),
        read=_reference,
        refusals=(TrilithError,),
        spice=b":/#=.~!<>@% \0\xff",
        inputs=10_000,
        inputs_full=300_000,
    ),
)

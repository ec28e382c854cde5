"""The `.proto` that is made of a service's annotations, and calls by it."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, Field
from rpc_service import PROTO, message
from typing_extensions import TypedDict

import trilith
from trilith.errors import InvalidConfig, InvalidInput
from trilith.service import describe, proto_of
from trilith.service.proto.compiler import read_file
from trilith.service.spec import spec_of


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Corner(NamedTuple):
    x: float
    y: float = 0.0


@dataclasses.dataclass
class Line:
    """One line of text."""

    text: str
    box: list[tuple[float, float]]
    corners: list[Corner]
    row: int | None = None
    size: Size = Size.SMALL
    notes: list[str] | None = None
    children: "list[Line]" = dataclasses.field(default_factory=list)


class Page(BaseModel):
    number: Annotated[int, Field(ge=0)]
    lines: list[Line] = []
    by_name: dict[str, Line] = {}
    grid: dict[str, list[list[int]]] = {}


class Extra(TypedDict):
    price: decimal.Decimal
    day: datetime.date


@trilith.service
class LineReader:
    """Reads lines."""

    @trilith.api
    async def read(self, page: Page, limit: float = 0.5, word: str | None = None) -> list[Line]:
        """The lines of a page."""
        return page.lines[: None if word is None else 1] if limit == 0.5 else []

    @trilith.api
    async def keep_page(self, page: Page, /) -> Page:
        return page

    @trilith.api
    async def extra(self, extra: Extra, at: datetime.datetime, took: datetime.timedelta) -> Extra:
        return extra

    @trilith.api
    async def json(self, anything: Any, said: dict[str, Any], several: list[Any]) -> Any:
        return [anything, said, several]

    @trilith.api
    async def scale(self, x: NDArray[np.float32], by: int | float = 2) -> NDArray[np.float32]:
        return x * np.float32(by)

    @trilith.api
    def turn(self, image: Image.Image, raw: bytes = b"") -> Image.Image:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    @trilith.api
    def count(self, file: pathlib.Path) -> str:
        return f"{file.name} {file.stat().st_size}"

    @trilith.api
    async def mode(self, mode: Literal["fast", "slow"], flags: dict[int, bool], rows: list[list[float]]) -> None:
        return None

    @trilith.api(batch=trilith.Batch(max_size=4))
    async def upper(self, word: list[str]) -> list[str]:
        return [one.upper() for one in word]


EXPECTED = """\
syntax = "proto3";

package line_reader;

import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";

// Reads lines.
service LineReader {
  // The lines of a page.
  rpc Read(ReadRequest) returns (ReadResponse);
  rpc KeepPage(Page) returns (Page);
  rpc Extra(ExtraRequest) returns (.line_reader.Extra);
  rpc Json(JsonRequest) returns (JsonResponse);
  rpc Scale(ScaleRequest) returns (ScaleResponse);
  rpc Turn(TurnRequest) returns (TurnResponse);
  rpc Count(CountRequest) returns (CountResponse);
  rpc Mode(ModeRequest) returns (ModeResponse);
  rpc Upper(UpperRequest) returns (UpperResponse);
}

message ReadRequest {
  Page page = 1;
  optional double limit = 2;
  optional string word = 3;
}

message Page {
  int64 number = 1;
  repeated Line lines = 2;
  map<string, Line> by_name = 3;
  map<string, Int64ListList> grid = 4;
}

// One line of text.
message Line {
  string text = 1;
  repeated DoubleList box = 2;
  repeated Corner corners = 3;
  optional int64 row = 4;
  optional Size size = 5;
  StringList notes = 6;
  repeated Line children = 7;
}
"""


def test_the_text_is_what_the_annotations_say():
    text = proto_of(spec_of(LineReader))
    assert EXPECTED in text
    assert text.startswith("// Made by `trilith proto`.")
    assert "message Tensor {\n  string dtype = 1;\n  repeated int64 shape = 2;\n  bytes data = 3;\n}" in text
    assert "enum Size {\n  SIZE_UNSPECIFIED = 0;\n  SIZE_SMALL = 1;\n  SIZE_LARGE = 2;\n}" in text
    assert not spec_of(LineReader).grpc.left_out


@pytest.mark.parametrize("name", ["LineReader", "Shapes", "WholeStreams"])
def test_what_the_compiler_makes_of_the_text_is_the_descriptor(tmp_path, name):
    spec = spec_of(globals()[name])
    binding, path = spec.grpc, tmp_path / f"{spec.grpc.name.rpartition('.')[0]}.proto"
    path.write_text(proto_of(spec))
    compiled = FileDescriptorSet.FromString(read_file(path, tmp_path, name)).file[-1]
    derived = FileDescriptorSet.FromString(binding.descriptor_set).file[-1]

    def plain(file):
        for each in file.message_type:
            for field in [*each.field, *(field for nested in each.nested_type for field in nested.field)]:
                field.ClearField("json_name")
        file.dependency[:] = sorted(file.dependency)
        return file

    assert plain(compiled) == plain(derived)


def test_the_kept_file_serves_the_same_class(tmp_path, monkeypatch):
    (tmp_path / "kept.proto").write_text(proto_of(spec_of(LineReader)))
    monkeypatch.setattr("trilith.service.proto.binding.source_folder", lambda target: tmp_path)
    members = {name: value for name, value in vars(LineReader).items() if name != "__trilith_service__"}
    kept = trilith.service(proto="kept.proto")(type("LineReader", (), members))
    assert set(spec_of(kept).grpc.methods) == set(spec_of(LineReader).grpc.methods)


def ask(serve, method, request, answered):
    async def scenario(hosted):
        body = await hosted.body(
            method, message(f"line_reader.{request[0]}", LineReader)(**request[1]).SerializeToString(), PROTO
        )
        return message(f"line_reader.{answered}", LineReader).FromString(body)

    return serve(LineReader, scenario)


LINE = {
    "text": "a",
    "box": [{"values": [1.0, 2.0]}, {"values": [3.0, 4.0]}],
    "corners": [{"x": 1.0}, {"x": 2.0, "y": 5.0}],
    "size": 2,
    "notes": {"values": []},
    "children": [{"text": "inner", "size": 1}],
}


def test_classes_in_lists_and_lists_in_lists(serve):
    answer = ask(serve, "read", ("ReadRequest", {"page": {"lines": [LINE]}}), "ReadResponse")
    [line] = answer.result
    assert line.box == message("line_reader.Line", LineReader)(**LINE).box
    assert [(corner.x, corner.y) for corner in line.corners] == [(1.0, 0.0), (2.0, 5.0)]
    assert (line.HasField("row"), line.size, line.HasField("notes")) == (False, 2, True)
    assert line.children[0].text == "inner"
    assert not ask(serve, "read", ("ReadRequest", {"page": {"lines": [LINE]}, "limit": 0.0}), "ReadResponse").result


def test_a_whole_message_and_maps(serve):
    page = {"number": 3, "lines": [LINE | {"size": 1}]}
    asked = message("line_reader.Page", LineReader)(**page)
    asked.grid["a"].values.add(values=[1, 2])
    asked.by_name["x"].CopyFrom(asked.lines[0])

    async def scenario(hosted):
        return await hosted.body("keep_page", asked.SerializeToString(), PROTO)

    answered = message("line_reader.Page", LineReader).FromString(serve(LineReader, scenario))
    answered.lines[0].corners[0].ClearField("y")
    answered.by_name["x"].corners[0].ClearField("y")
    assert answered == asked


def test_constraints_hold(serve):
    with pytest.raises(InvalidInput, match="greater than or equal to 0"):
        ask(serve, "keep_page", ("Page", {"number": -1}), "Page")
    with pytest.raises(InvalidInput, match="fast"):
        ask(serve, "mode", ("ModeRequest", {"mode": "x"}), "ModeResponse")
    with pytest.raises(InvalidInput, match="`page` is missing"):
        ask(serve, "read", ("ReadRequest", {}), "ReadResponse")


def test_text_of_what_has_no_type_of_its_own(serve):
    asked = {"extra": {"price": "1.50", "day": "2026-11-30"}, "at": {"seconds": 1}, "took": {"nanos": 1000}}
    answer = ask(serve, "extra", ("ExtraRequest", asked), "Extra")
    assert (answer.price, answer.day) == ("1.50", "2026-11-30")


def test_json(serve):
    value = message("google.protobuf.Value", LineReader)(number_value=1)
    struct = message("google.protobuf.Struct", LineReader)()
    struct.fields["a"].string_value = "b"
    answer = ask(serve, "json", ("JsonRequest", {"anything": value, "said": struct, "several": {}}), "JsonResponse")
    first, second, third = answer.result.list_value.values
    assert first.number_value == 1
    assert second.struct_value.fields["a"].string_value == "b"
    assert third.WhichOneof("kind") == "list_value"


def test_arrays_pictures_and_files(serve, tmp_path):
    tensor = {"dtype": "float32", "shape": [2], "data": np.array([1, 2], np.float32).tobytes()}
    answer = ask(serve, "scale", ("ScaleRequest", {"x": tensor, "by": 3.0}), "ScaleResponse")
    assert np.frombuffer(answer.result.data, np.float32).tolist() == [3.0, 6.0]
    assert (answer.result.dtype, list(answer.result.shape)) == ("float32", [2])
    Image.new("L", (3, 2)).save(tmp_path / "a.png")
    image = {"content": (tmp_path / "a.png").read_bytes()}
    assert ask(serve, "turn", ("TurnRequest", {"image": image}), "TurnResponse").result.content_type == "image/png"
    file = {"content": b"12345", "name": "../notes.txt"}
    assert ask(serve, "count", ("CountRequest", {"file": file}), "CountResponse").result == "notes.txt 5"


def test_a_batched_method_takes_single_messages(serve):
    async def scenario(hosted):
        made = message("line_reader.UpperRequest", LineReader)
        bodies = [made(word=word).SerializeToString() for word in "ab"] + [b"\xff"]
        return await hosted.batch("upper", bodies, PROTO)

    *answers, refused = serve(LineReader, scenario)
    made = message("line_reader.UpperResponse", LineReader)
    assert [made.FromString(answer.body).result for answer in answers] == ["A", "B"]
    assert isinstance(refused, InvalidInput)


@dataclasses.dataclass
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


class Square(BaseModel):
    side: float
    kind: Literal["square"] = "square"


@trilith.service
class Shapes:
    @trilith.api
    async def either(self, shape: Circle | Square) -> Square | Circle:
        return shape

    @trilith.api
    async def told(
        self, shapes: list[Annotated[Circle | Square, Field(discriminator="kind")]], note: int | str | None = None
    ) -> int | str | None:
        return note if note is not None else [type(shape).__name__ for shape in shapes].index("Square")

    @trilith.api
    async def alone(self, value: bool | int | bytes) -> bool | int | bytes:
        return value


SHAPES = """\
message CircleOrSquare {
  oneof value {
    Circle circle_value = 1;
    Square square_value = 2;
  }
}
"""


def test_a_union_is_a_message_with_a_oneof(serve):
    text = proto_of(spec_of(Shapes))
    assert SHAPES in text
    assert "repeated CircleOrSquare shapes = 1;" in text
    made = {name: message(f"shapes.{name}", Shapes) for name in ("EitherRequest", "EitherResponse", "ToldRequest")}

    async def scenario(hosted):
        body = made["EitherRequest"](shape={"square_value": {"side": 2.0}}).SerializeToString()
        answer = made["EitherResponse"].FromString(await hosted.body("either", body, PROTO))
        assert answer.result.square_value.side == 2.0
        shapes = [{"circle_value": {"radius": 1.0}}, {"square_value": {"side": 1.0}}]
        for note, expected in (({}, 1), ({"note": {"int64_value": 7}}, 7), ({"note": {"string_value": "x"}}, "x")):
            body = made["ToldRequest"](shapes=shapes, **note).SerializeToString()
            answer = message("shapes.ToldResponse", Shapes).FromString(await hosted.body("told", body, PROTO))
            assert getattr(answer.result, answer.result.WhichOneof("value")) == expected
        for field, value in (("bool_value", True), ("int64_value", 1), ("bytes_value", b"x")):
            body = message("shapes.AloneRequest", Shapes)(value={field: value}).SerializeToString()
            answer = message("shapes.AloneResponse", Shapes).FromString(await hosted.body("alone", body, PROTO))
            assert (answer.result.WhichOneof("value"), getattr(answer.result, field)) == (field, value)
        with pytest.raises(InvalidInput, match="nothing of the oneof `value` is set"):
            await hosted.body("either", made["EitherRequest"](shape={}).SerializeToString(), PROTO)
        with pytest.raises(InvalidInput, match="`shape` is missing"):
            await hosted.body("either", b"", PROTO)

    serve(Shapes, scenario)


@trilith.service
class WholeStreams:
    @trilith.api
    async def count(self, upto: int = 3) -> AsyncIterator[int]:
        yield upto

    @trilith.api
    def lines(self, page: Iterator[Page]) -> Iterator[Line]:
        yield from next(page).lines

    @trilith.api
    def total(self, of: Iterator[float], scale: float = 1.0) -> float:
        return sum(of) * scale


@trilith.service
class Streams(WholeStreams):
    @trilith.api
    def beside(self, of: Iterator[float], scale: float) -> float:
        return sum(of) * scale


def test_streams():
    binding = spec_of(Streams).grpc
    for line in (
        "rpc Count(CountRequest) returns (stream CountResponse);",
        "rpc Lines(stream Page) returns (stream Line);",
        "rpc Total(stream TotalRequest) returns (TotalResponse);",
        "message TotalRequest {\n  double of = 1;\n}",
    ):
        assert line in proto_of(spec_of(WholeStreams))
    [left_out] = binding.left_out
    assert "there is none for `scale`" in left_out


def other_line():
    @dataclasses.dataclass
    class Line:
        width: int

    return Line


OtherLine = other_line()


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (tuple[str, float], "all of one type"),
        (list[str | None], "holds no None"),
        (dict[float, str], "keys of a map"),
        (int | str | float, "are alike"),
        (Line | OtherLine, "two messages would be called Line"),
        (Line | list[int], "a list is no member"),
        (complex, "has no form"),
    ],
)
def test_what_has_no_form_is_left_out_with_a_sentence(annotation, why):
    def odd(self, value):
        return 1

    async def plain(self, x: int) -> int:
        return x

    odd.__annotations__.update({"value": annotation, "return": int})
    target = trilith.service(type("Odd", (), {"odd": trilith.api(odd), "plain": trilith.api(plain)}))
    binding = spec_of(target).grpc
    assert list(binding.methods) == ["plain"]
    [sentence] = binding.left_out
    assert sentence.startswith("Odd.odd: `value`")
    assert why in sentence
    assert b"OddRequest" not in binding.descriptor_set
    with pytest.raises(InvalidConfig, match=r"cannot be written as a \.proto: Odd\.odd"):
        proto_of(spec_of(target))


def test_two_classes_of_one_name_are_left_out(caplog):
    @trilith.service
    class Two:
        @trilith.api
        async def first(self, line: Line) -> int:
            return 1

        @trilith.api
        async def second(self, line: OtherLine) -> int:
            return 2

    with caplog.at_level("INFO", "trilith.service"):
        description = describe(Two)
    [service] = description.services
    assert [rpc.name for rpc in service.grpc.rpcs] == ["First"]
    [record] = [one for one in caplog.records if "gRPC" in one.message]
    assert "two messages would be called Line" in record.message


def test_only_the_root_and_services_with_a_file_are_offered():
    @trilith.service
    class Inner:
        @trilith.api
        async def one(self, x: int) -> int:
            return x

    @trilith.service(rpc="shop.v1.Front")
    class Front:
        inner = trilith.depends(Inner)

        @trilith.api
        async def two(self, x: int) -> int:
            return x

    front, inner = describe(Front).services
    assert front.grpc.service == "shop.v1.Front"
    assert inner.grpc is None


def test_a_function_is_a_service_with_one_rpc():
    @trilith.service
    def echo(x: list[float]) -> list[float]:
        return x

    binding = spec_of(echo).grpc
    assert (binding.name, binding.methods["echo"].rpc) == ("echo.Echo", "Echo")


def test_a_mistake_in_what_nobody_asked_for_keeps_no_service_from_http(monkeypatch, caplog):
    def broken(spec):
        raise RuntimeError("a mistake")

    monkeypatch.setattr("trilith.service.proto.binding.bind", broken)

    @trilith.service
    def echo(x: int) -> int:
        return x

    assert describe(echo).root.grpc is None
    assert "echo cannot be offered over gRPC" in caplog.text

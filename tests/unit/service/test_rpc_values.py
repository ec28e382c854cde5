"""Values through messages and back: each kind of field with what may be annotated for it."""

import asyncio
import contextlib
import dataclasses
import datetime
import threading
import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from rpc_service import PROTO, AllScalars, Colour, Kinds, Line, message

import trilith
from trilith.errors import InvalidInput, ServiceError

LINE = {"text": "one", "score": 0.5, "box": [1.0, 2.0]}


def signed(bits):
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def unsigned(bits):
    return st.integers(0, (1 << bits) - 1)


SCALARS = st.fixed_dictionaries(
    {
        "d": st.floats(allow_nan=False),
        "f": st.floats(allow_nan=False, width=32),
        "i32": signed(32),
        "i64": signed(64),
        "u32": unsigned(32),
        "u64": unsigned(64),
        "s32": signed(32),
        "s64": signed(64),
        "f32": unsigned(32),
        "f64": unsigned(64),
        "sf32": signed(32),
        "sf64": signed(64),
        "b": st.booleans(),
        "s": st.text(st.characters(exclude_categories=["Cs"])),
        "raw": st.binary(),
    }
)


def answers(serve, name, request, method, answered=None):
    """What the method answers to a message, as a message; and the instance that answered."""

    async def scenario(hosted):
        body = await hosted.body(method, request.SerializeToString(), PROTO)
        return message(answered or name).FromString(body), hosted.host.instance

    return serve(Kinds, scenario)


def test_all_scalars_come_and_go_as_they_are(serve):
    made = message("kinds.v1.AllScalars")

    async def scenario(hosted):
        @settings(max_examples=60)
        @given(SCALARS)
        def there_and_back(values):
            asked = made(**values)

            async def call():
                return await hosted.body("scalars", asked.SerializeToString(), PROTO)

            answered = asyncio.run_coroutine_threadsafe(call(), loop).result(10)
            assert made.FromString(answered) == asked
            assert hosted.host.instance.seen == AllScalars(**values)

        loop = asyncio.get_running_loop()
        await asyncio.to_thread(there_and_back)

    serve(Kinds, scenario)


def test_lists_maps_and_messages(serve):
    made = message("kinds.v1.Collection")
    asked = made(words=["b", "a"], numbers=[3, 1], weights={"x": 0.25}, lines=[LINE, LINE], best=LINE | {"row": 4})
    asked.by_row[2].text = "two"
    answered, _ = answers(serve, "kinds.v1.Collection", asked, "collect")
    assert sorted(answered.words) == ["a", "b"]
    assert list(answered.numbers) == [3, 1]
    assert answered.weights == {"x": 0.25}
    assert answered.by_row[2].text == "two"
    assert answered.lines == asked.lines
    assert answered.best.row == 4


def test_what_was_not_set_is_the_default_where_the_message_tells(serve):
    answered, _ = answers(serve, "kinds.Line", message("kinds.Line")(), "read_line")
    assert (answered.row, answered.text, answered.score) == (7, "", 0.0), "row is optional; the others have their zero"
    answered, _ = answers(serve, "kinds.Line", message("kinds.Line")(row=0), "read_line")
    assert answered.row == 0
    answered, _ = answers(serve, "kinds.v1.Collection", message("kinds.v1.Collection")(), "collect")
    assert not answered.HasField("best")


@pytest.mark.parametrize("said", [{}, {"text": "t"}, {"number": 0}, {"line": LINE}, {"limit": 0.0}])
def test_members_of_a_oneof_and_optional_fields_are_none_until_set(serve, said):
    identity = uuid.uuid4()
    asked = message("kinds.v1.Choice")(
        colour="COLOUR_DEEP_BLUE", named="COLOUR_RED", several=[1, 2, 1], identity=str(identity), **said
    )
    answered, instance = answers(serve, "kinds.v1.Choice", asked, "choose")
    assert answered == asked
    seen = instance.seen
    assert (seen.colour, seen.named) == (Colour.DEEP_BLUE, "COLOUR_RED")
    assert seen.several == [Colour.RED, Colour.DEEP_BLUE, Colour.RED]
    assert seen.identity == identity
    for name in ("text", "number", "line", "limit"):
        assert (getattr(seen, name) is not None) == (name in said)


def test_an_enum_that_was_not_said_is_none(serve):
    asked = message("kinds.v1.Choice")(identity=str(uuid.uuid4()))
    answered, instance = answers(serve, "kinds.v1.Choice", asked, "choose")
    assert instance.seen.colour is None
    assert instance.seen.named == "COLOUR_UNSPECIFIED"
    assert answered == asked


@pytest.mark.parametrize("changed", [{"several": [7]}, {"named": 9}, {"identity": "none"}])
def test_a_value_that_the_type_does_not_have_is_refused_by_name(serve, changed):
    asked = message("kinds.v1.Choice")(**{"identity": str(uuid.uuid4())} | changed)
    with pytest.raises(InvalidInput, match=r"Kinds\.choose") as refused:
        answers(serve, "kinds.v1.Choice", asked, "choose")
    assert ("COLOUR_RED" in refused.value.message) == ("identity" not in changed)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def test_well_known_types(serve):
    made = message("kinds.v1.WellKnown")
    asked = made(took={"seconds": -1, "nanos": -500_000_000}, number={"value": 5}, times=[{"seconds": 1}, {}])
    asked.at.FromJsonString("2026-11-30T12:00:00.25Z")
    asked.said.update({"a": [1, 2.5, None, {"b": True}], "empty": {}})
    asked.anything.string_value = "x"
    asked.several.extend([1, "two"])
    answered, instance = answers(serve, "kinds.v1.WellKnown", asked, "known")
    assert answered == asked
    seen = instance.seen
    assert seen.at == datetime.datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
    assert seen.took == datetime.timedelta(seconds=-1.5)
    assert seen.said == {"a": [1, 2.5, None, {"b": True}], "empty": {}}
    assert type(seen.said["a"][0]) is int
    assert (seen.anything, seen.several, seen.number) == ("x", [1, "two"], 5)
    assert seen.times[1] == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def test_a_wrapper_that_was_not_set_is_none(serve):
    asked = message("kinds.v1.WellKnown")(at={}, took={}, said={}, anything={"bool_value": False}, several={})
    answered, instance = answers(serve, "kinds.v1.WellKnown", asked, "known")
    assert instance.seen.number is None
    assert not answered.HasField("number")
    assert instance.seen.anything is False


def test_a_time_beyond_what_python_holds_is_refused(serve):
    asked = message("kinds.v1.WellKnown")(at={"seconds": 1 << 60})
    with pytest.raises(InvalidInput, match="beyond the years"):
        answers(serve, "kinds.v1.WellKnown", asked, "known")


def picture(tmp_path):
    Image.new("RGB", (2, 1), (255, 0, 0)).save(tmp_path / "red.png")
    return (tmp_path / "red.png").read_bytes()


def test_pictures_and_arrays(serve, tmp_path):
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    asked = message("kinds.v1.Specials")(
        image=picture(tmp_path),
        pixels=b"\0\1\2",
        row=[0.5, 1.5],
        tensor={"dtype": "int16", "shape": [2, 3], "data": values.tobytes()},
    )
    answered, instance = answers(serve, "kinds.v1.Specials", asked, "special")
    seen = instance.seen
    assert seen.image.getpixel((0, 0)) == (255, 0, 0)
    assert (seen.pixels.dtype, seen.pixels.tolist()) == (np.uint8, [0, 1, 2])
    assert (seen.row.dtype, seen.row.tolist()) == (np.float32, [0.5, 1.5])
    assert (seen.tensor.dtype, seen.tensor.tolist()) == (np.int16, values.tolist())
    seen.pixels[0] = 9  # what came is the method's own
    assert answered.image.startswith(b"\x89PNG")
    assert (answered.pixels, answered.row, answered.tensor) == (asked.pixels, asked.row, asked.tensor)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"image": b"no image"}, "expected an image"),
        ({"tensor": {"dtype": "object", "shape": [1], "data": b"12345678"}}, "object"),
        ({"tensor": {"dtype": "float32", "shape": [1 << 40, 1 << 40], "data": b""}}, "bytes"),
        ({"tensor": {"dtype": "float32", "shape": [-1], "data": b""}}, "shape"),
    ],
)
def test_what_is_no_picture_or_array_is_refused(serve, tmp_path, changed, why):
    good = {"image": picture(tmp_path), "tensor": {"dtype": "float32", "shape": [0], "data": b""}}
    asked = message("kinds.v1.Specials")(**good | changed)
    with pytest.raises(InvalidInput, match=why):
        answers(serve, "kinds.v1.Specials", asked, "special")


def test_one_field_stands_for_a_scalar_and_a_wrapper_for_its_value(serve):
    asked = message("kinds.v1.Lines")(lines=[LINE, LINE])
    answered, _ = answers(serve, "", asked, "join", "kinds.v1.Text")
    assert answered.joined == "one one"
    answered, _ = answers(
        serve, "", message("google.protobuf.StringValue")(value="x"), "upper", "google.protobuf.StringValue"
    )
    assert answered.value == "X"
    answered, _ = answers(serve, "", message("google.protobuf.Empty")(), "nothing", "google.protobuf.Empty")
    assert answered.ByteSize() == 0


def test_a_message_that_holds_itself(serve):
    asked = message("kinds.v1.Tree")(name="a", branches=[{"name": "b", "branches": [{"name": "c"}]}])
    answered, _ = answers(serve, "kinds.v1.Tree", asked, "grow")
    assert answered == asked


def test_a_dict_has_all_fields_that_are_set(serve):
    asked = message("kinds.v1.Collection")(words=["a"], lines=[LINE], weights={"x": 1.0})
    answered, instance = answers(serve, "kinds.v1.Collection", asked, "loose")
    assert answered == asked
    assert instance.seen["lines"][0]["text"] == "one"
    assert "best" not in instance.seen


def wire(number, kind, body):
    return bytes([number << 3 | kind]) + body


@pytest.mark.parametrize(
    "octets",
    [
        b"\xff\xff\xff",
        wire(1, 2, b"\x05ab"),  # cut short
        wire(1, 2, b"\x02\xff\xfe"),  # no UTF-8
        wire(3, 2, b"\x03\x00\x00\x00"),  # floats of three bytes
        b"\x0b",  # a group that never ends
        b"\x00\x01",  # field number 0
    ],
)
def test_what_is_no_such_message_is_refused(serve, octets):
    with pytest.raises(InvalidInput, match=r"Kinds\.read_line: the message is no kinds\.Line"):
        serve(Kinds, lambda hosted: hosted.body("read_line", octets, PROTO))


def test_fields_that_are_not_known_are_passed_over(serve):
    octets = message("kinds.Line")(text="t").SerializeToString() + wire(15, 2, b"\x03abc") + wire(1, 0, b"\x01")
    body = serve(Kinds, lambda hosted: hosted.body("read_line", octets, PROTO))
    assert message("kinds.Line").FromString(body).text == "t"


@settings(max_examples=200)
@given(st.binary(max_size=60), st.sampled_from(["scalars", "collect", "choose", "known", "read_line", "grow", "loose"]))
def test_any_octets_are_read_or_refused(octets, method):
    reader = Kinds.__trilith_service__.grpc.methods[method].reader
    with contextlib.suppress(InvalidInput):
        reader.decode(octets, None)


@pytest.mark.parametrize("row", [1 << 40, -(1 << 31) - 1])
def test_a_result_that_the_message_cannot_hold_is_the_services_fault(serve, row):
    @trilith.service(proto="protos/kinds.proto", rpc="kinds.v1.Kinds")
    class Overflowing(Kinds):
        @trilith.api
        async def read_line(self, text: str, score: float, box: list[float], row: int = row) -> Line:
            return Line(text, score, box, row)

    with pytest.raises(ServiceError, match=r"Overflowing\.read_line returned what kinds\.Line cannot hold"):
        serve(Overflowing, lambda hosted: hosted.body("read_line", b"", PROTO), debug=True)


def test_json_values_come_back(serve):
    from trilith.service.proto.well_known import _fill_value, _value

    made = message("google.protobuf.Value")

    @settings(max_examples=100)
    @given(JSON)
    def there_and_back(value):
        found = made()
        _fill_value(found, value)
        assert _value(made.FromString(found.SerializeToString())) == value

    there_and_back()


@dataclasses.dataclass
class Text:
    joined: str


@dataclasses.dataclass
class Turned:
    times: int
    shape: Line | Text | int | None = None


@trilith.service(proto="protos/kinds.proto", rpc="kinds.v1.Shapes")
class Shapes:
    @trilith.api
    async def turn(self, times: int, shape: Line | Text | int | None = 9) -> Turned:
        return Turned(times, shape)


@pytest.mark.parametrize("shape", [{}, {"text": {"joined": "x"}}, {"line": LINE}, {"number": 0}])
def test_a_oneof_may_be_one_parameter_of_its_name(serve, shape):
    made = message("kinds.v1.Turned", Shapes)
    asked = made(times=2, **shape)
    answered = made.FromString(serve(Shapes, lambda hosted: hosted.body("turn", asked.SerializeToString(), PROTO)))
    assert answered == (asked if shape else made(times=2, number=9)), "the default, where nothing was set"


@pytest.mark.parametrize("count", [1, 100_000])
def test_long_messages_are_read_beside_the_loop(serve, monkeypatch, count):
    seen = []
    reader = Kinds.__trilith_service__.grpc.methods["read_line"].reader
    decode = reader.decode
    asked = message("kinds.Line")(box=[0.5] * count).SerializeToString()

    def watched(body, folder):
        seen.append(threading.current_thread() is threading.main_thread())
        return decode(body, folder)

    monkeypatch.setattr(reader, "decode", watched)
    answered = serve(Kinds, lambda hosted: hosted.body("read_line", asked, PROTO))
    assert len(message("kinds.Line").FromString(answered).box) == count
    assert seen == [count == 1]

"""Every type, by every content type, single and batched: what comes in is what went out."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from annotated_types import Ge, Len
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator
from typing_extensions import TypedDict

import trilith
from trilith.errors import InvalidInput
from trilith.service import spec_of
from trilith.service.codecs import media, native
from trilith.service.codecs.files import RequestFolder
from trilith.service.codecs.request import RequestDecoder
from trilith.service.codecs.result import ResultDecoder, ResultEncoder
from trilith.wire.calls import NATIVE_CONTENT_TYPE

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


Animal = Annotated[Cat | Dog, Field(discriminator="kind")]


class Boxed(BaseModel, Generic[T]):
    inside: T


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    given_name: str = Field(alias="givenName")


class Words(RootModel[list[str]]):
    pass


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def _even(cls, number: int) -> int:
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Place(NamedTuple):
    x: int
    y: float


class Keyed(TypedDict):
    at: datetime.datetime
    raw: bytes


@dataclasses.dataclass
class Node:
    name: str
    parent: "Node | None" = None


@dataclasses.dataclass
class Mixed:
    box: NDArray[np.float32]
    raw: bytes
    many: list[NDArray[np.int64]] = dataclasses.field(default_factory=list)


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
INTS = st.integers(-(2**63), 2**63 - 1)
BYTES = st.binary(max_size=20)
TREES = st.recursive(
    st.builds(Tree, value=INTS),
    lambda inner: st.builds(Tree, value=INTS, children=st.lists(inner, max_size=2)),
    max_leaves=4,
)
NODES = st.recursive(st.builds(Node, TEXT), lambda inner: st.builds(Node, TEXT, inner), max_leaves=3)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, max_side=3)


def arrays(dtype: str) -> st.SearchStrategy[Any]:
    elements = {"allow_nan": False, "allow_infinity": False} if dtype.startswith(("float", "complex")) else None
    return hnp.arrays(dtype, SHAPES, elements=elements)


def same_array(one: Any, two: Any) -> bool:
    return one.dtype == two.dtype and one.shape == two.shape and np.array_equal(one, two)


def same_mixed(one: Mixed, two: Mixed) -> bool:
    return (
        same_array(one.box, two.box) and one.raw == two.raw and list(map(list, one.many)) == list(map(list, two.many))
    )


def pictures(mode: str) -> st.SearchStrategy[Any]:
    size = 4 * len(Image.new(mode, (1, 1)).tobytes())
    return st.binary(min_size=size, max_size=size).map(lambda raw: Image.frombytes(mode, (2, 2), raw))


def same_image(one: Image.Image, two: Image.Image) -> bool:
    lossless = getattr(one, "format", None) in (None, "PNG", "TIFF") and getattr(two, "format", None) in (
        None,
        "PNG",
        "TIFF",
    )
    return one.size == two.size and (not lossless or (one.mode == two.mode and one.tobytes() == two.tobytes()))


FRAMES = st.lists(
    st.fixed_dictionaries({"n": INTS, "f": FLOATS, "s": TEXT.filter(lambda text: "\r" not in text)}), max_size=3
)
FRAME = trilith.Frame({"n": int, "f": float, "s": str})
TABLE = pa.schema({"n": pa.int64(), "f": pa.float64(), "s": pa.string()})

# annotation, values, equality (None for ==)
CASES: dict[str, tuple[Any, st.SearchStrategy[Any], Any]] = {
    "int": (int, INTS, None),
    "float": (float, FLOATS, None),
    "bool": (bool, st.booleans(), None),
    "str": (str, TEXT, None),
    "none": (None, st.none(), None),
    "list": (list[int], st.lists(INTS, max_size=4), None),
    "bare dict": (dict, st.dictionaries(TEXT, INTS, max_size=3), None),
    "dict": (
        dict[str, list[float | None]],
        st.dictionaries(TEXT, st.lists(st.none() | FLOATS, max_size=3), max_size=3),
        None,
    ),
    "int keys": (dict[int, str], st.dictionaries(INTS, TEXT, max_size=3), None),
    "any": (Any, st.none() | INTS | TEXT | st.lists(INTS, max_size=3), None),
    "tuple": (tuple[int, str], st.tuples(INTS, TEXT), None),
    "long tuple": (tuple[int, ...], st.lists(INTS, max_size=3).map(tuple), None),
    "set": (frozenset[int], st.frozensets(INTS, max_size=3), None),
    "optional": (int | None, st.none() | INTS, None),
    "union": (int | str | list[bool], INTS | TEXT | st.lists(st.booleans(), max_size=3), None),
    "literal": (Literal["a", 1, True], st.sampled_from(["a", 1]), None),
    "enum": (Colour, st.sampled_from(Colour), None),
    "int enum": (Level, st.sampled_from(Level), None),
    "date": (datetime.date, st.dates(), None),
    "datetime": (datetime.datetime, st.datetimes(timezones=st.none() | st.just(datetime.UTC)), None),
    "time": (datetime.time, st.times(), None),
    "timedelta": (datetime.timedelta, st.timedeltas(datetime.timedelta(-9999), datetime.timedelta(9999)), None),
    "decimal": (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=5), None),
    "uuid": (uuid.UUID, st.uuids(), None),
    "at least": (Annotated[int, Ge(3)], st.integers(3, 2**63 - 1), None),
    "long enough": (Annotated[list[str], Len(1, 3)], st.lists(TEXT, min_size=1, max_size=3), None),
    "named tuple": (Place, st.builds(Place, INTS, FLOATS), None),
    "typed dict": (Keyed, st.fixed_dictionaries({"at": st.datetimes(), "raw": BYTES}), None),
    "dataclass": (Node, NODES, None),
    "model": (Cat, st.builds(Cat, lives=INTS), None),
    "discriminated": (Animal, st.builds(Cat, lives=INTS) | st.builds(Dog, tricks=st.lists(TEXT, max_size=2)), None),
    "discriminated list": (list[Animal], st.lists(st.builds(Cat, lives=INTS), max_size=2), None),
    "generic": (
        Boxed[list[Colour]],
        st.lists(st.sampled_from(Colour), max_size=2).map(lambda x: Boxed[list[Colour]](inside=x)),
        None,
    ),
    "alias": (Aliased, st.builds(Aliased, given_name=TEXT), None),
    "root model": (Words, st.lists(TEXT, max_size=3).map(Words), None),
    "validator": (Even, st.integers(-100, 100).map(lambda n: Even(number=2 * n)), None),
    "recursive": (Tree, TREES, None),
    "float32": (NDArray[np.float32], arrays("float32"), same_array),
    "float16": (NDArray[np.float16], arrays("float16"), same_array),
    "float64": (NDArray[np.float64], arrays("float64"), same_array),
    "int8": (NDArray[np.int8], arrays("int8"), same_array),
    "uint64": (NDArray[np.uint64], arrays("uint64"), same_array),
    "bool array": (NDArray[np.bool_], arrays("bool"), same_array),
    "shaped": (
        Annotated[NDArray[np.float32], trilith.Shape(None, 2)],
        hnp.arrays(
            "float32", st.tuples(st.integers(1, 3), st.just(2)), elements={"allow_nan": False, "allow_infinity": False}
        ),
        same_array,
    ),
    "optional array": (NDArray[np.int64] | None, st.none() | arrays("int64"), lambda a, b: a is b or same_array(a, b)),
    "arrays": (
        list[NDArray[np.int64]],
        st.lists(arrays("int64"), min_size=1, max_size=2),
        lambda a, b: all(map(same_array, a, b)),
    ),
    "arrays by name": (
        dict[str, NDArray[np.int64]],
        st.dictionaries(TEXT, arrays("int64"), max_size=2),
        lambda a, b: a.keys() == b.keys() and all(same_array(a[k], b[k]) for k in a),
    ),
    "mixed": (
        Mixed,
        st.builds(Mixed, arrays("float32"), BYTES, st.lists(arrays("int64").map(np.ravel), max_size=2)),
        same_mixed,
    ),
    "asked outside": (
        Annotated[list[bytes] | None, trilith.ContentType("text/x-log")],
        st.none() | st.just([b"a log"]),
        None,
    ),
    "bytes": (bytes, BYTES, None),
    "optional bytes": (bytes | None, st.none() | BYTES, None),
    "many bytes": (list[bytes], st.lists(BYTES, min_size=1, max_size=3), None),
    "bytes by name": (dict[str, bytes], st.dictionaries(TEXT, BYTES, max_size=2), None),
    "typed bytes": (Annotated[bytes, trilith.ContentType("text/x-log")], st.just(b"a log"), None),
    "picture": (Image.Image, pictures("RGB") | pictures("L"), same_image),
    "pictures": (
        list[Image.Image],
        st.lists(pictures("RGBA"), min_size=1, max_size=2),
        lambda a, b: all(map(same_image, a, b)),
    ),
    "dataframe": (
        Annotated[pd.DataFrame, FRAME],
        FRAMES.map(lambda rows: pa.Table.from_pylist(rows, TABLE).to_pandas()),
        lambda a, b: a.equals(b),
    ),
    "table": (
        Annotated[pa.Table, FRAME],
        FRAMES.map(lambda rows: pa.Table.from_pylist(rows, TABLE)),
        lambda a, b: a.equals(b),
    ),
    "series": (
        Annotated[pd.Series, trilith.Frame({"n": int})],
        st.lists(INTS, max_size=3).map(lambda n: pd.Series(n, name="n", dtype="int64")),
        lambda a, b: a.equals(b),
    ),
    "frames": (
        list[Annotated[pa.Table, FRAME]],
        st.lists(FRAMES.map(lambda rows: pa.Table.from_pylist(rows, TABLE)), min_size=1, max_size=2),
        lambda a, b: all(one.equals(two) for one, two in zip(a, b, strict=True)),
    ),
}


class Codecs(typing.NamedTuple):
    decoder: RequestDecoder
    encoder: ResultEncoder
    results: ResultDecoder


def codecs(annotation: Any, batched: bool) -> Codecs:
    def same(x):
        return x

    whole = list[annotation] if batched else annotation
    same.__annotations__ = {"x": whole, "return": whole}
    decorated = trilith.service(batch=trilith.Batch())(same) if batched else trilith.service(same)
    signature = spec_of(decorated).methods["same"].signature
    decoder, encoder = RequestDecoder(signature, "same"), ResultEncoder(signature.result, "same")
    decoder.prepare()
    encoder.prepare()
    return Codecs(decoder, encoder, ResultDecoder(signature, "same"))


def given_x(decoder: RequestDecoder, content_type: str, body: Any) -> Any:
    arguments = decoder.decode(content_type, body)
    [found] = [*arguments.args, *arguments.kwargs.values()]
    return found


def as_form(content_type: str, bodies: list[bytes]) -> bytes:
    form = b""
    for body in bodies:
        head = f'--B\r\ncontent-disposition: form-data; name="x"; filename="x"\r\ncontent-type: {content_type}\r\n\r\n'
        form += head.encode() + body + b"\r\n"
    return form + b"--B--\r\n"


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
@pytest.mark.parametrize("case", CASES)
def test_what_goes_out_comes_in(case, batched):
    annotation, values, same = CASES[case]
    codec = codecs(annotation, batched)
    same = same or (lambda one, two: one == two and type(one) is type(two))

    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
    @given(values)
    def check(value):
        for offered in codec.encoder._offered:
            if offered == media.FORM:
                continue  # how a result of several parts goes out is no form of a request
            content_type, [body] = codec.encoder.encode(value, offered)
            body = bytes(body)
            if media.is_json(content_type):
                assert same(given_x(codec.decoder, media.JSON, [b'{"x": ' + body + b"}"]), value)
            elif value is not None:
                assert same(given_x(codec.decoder, content_type, [body]), value)
            if value is not None and media.FORM in codec.decoder.accepts and codec.encoder._composite is None:
                if media.is_json(content_type) and codec.encoder._result.kind in ("image", "bytes"):
                    continue  # in a form these are files, never text
                if media.is_json(content_type) and codec.encoder._result.many:
                    continue
                form = as_form(content_type, [body])
                assert same(given_x(codec.decoder, f"{media.FORM}; boundary=B", [form]), value)
        assert same(given_x(codec.decoder, NATIVE_CONTENT_TYPE, native.pack_call((value,), {})), value)
        assert same(codec.results.decode(codec.encoder.encode_native(value)), value)

    check()


@settings(max_examples=20, deadline=None)
@given(st.lists(BYTES, min_size=1, max_size=3))
def test_files_keep_their_content(contents):
    decoder = codecs(list[pathlib.Path], False).decoder
    folder = RequestFolder()
    try:
        [found] = decoder.decode(
            f"{media.FORM}; boundary=B", [as_form("application/octet-stream", contents)], folder=folder
        ).kwargs.values()
        assert [path.read_bytes() for path in found] == contents
    finally:
        folder.remove()


@pytest.mark.parametrize(
    ("case", "body", "message"),
    [
        ("discriminated", b'{"kind": "cow"}', r"'cow'.*'cat', 'dog'.* - at `\$\.x`"),
        ("discriminated", b'{"kind": "cat", "lives": "9"}', r"valid integer - at `\$\.x\.cat\.lives`"),
        ("validator", b'{"number": 3}', r"3 is odd - at `\$\.x\.number`"),
        ("alias", b'{"given": "x"}', r"Field required - at `\$\.x\.givenName`"),
        ("at least", b"2", r"greater than or equal to 3 - at `\$\.x`"),
        ("long enough", b"[]", r"at least 1 item .* - at `\$\.x`"),
        ("enum", b'"green"', r"'red' or 'blue' - at `\$\.x`"),
        (
            "recursive",
            b'{"value": 1, "children": [{"value": "x"}]}',
            r"valid integer - at `\$\.x\.children\[0\]\.value`",
        ),
        ("uuid", b'"x"', r"valid UUID.* - at `\$\.x`"),
        ("root model", b'["a", 1]', r"valid string - at `\$\.x\[1\]`"),
        ("literal", b'"b"', r"'a', 1 or True - at `\$\.x`"),
        ("decimal", b'"one"', r"valid decimal - at `\$\.x`"),
        ("shaped", b"[[1, 2, 3]]", r"shape \(any, 2\), got \(1, 3\) - at `\$\.x`"),
        ("mixed", b'{"box": ["a"], "raw": ""}', r"array of float32, got text - at `\$\.x\.box`"),
    ],
)
def test_what_is_wrong_is_told_in_one_form(case, body, message):
    with pytest.raises(InvalidInput, match=f"^same: .*{message}"):
        given_x(codecs(CASES[case][0], False).decoder, media.JSON, [b'{"x": ' + body + b"}"])

"""`trilith.log`: bounded copies of values, lines on disk, no waiting."""

import dataclasses
import datetime
import enum
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import trilith
from trilith.core.context import Context, current_context
from trilith.core.data_options import DataLogOptions, read_samples
from trilith.core.timeline import Timeline
from trilith.errors import InvalidConfig
from trilith.telemetry import DataLog, data_log
from trilith.telemetry.instruments import instruments
from trilith.telemetry.logged_values import LONGEST_TEXT, kept


@dataclasses.dataclass
class Line:
    text: str
    score: float


class Size(enum.Enum):
    SMALL = 1


class Odd:
    pass


def bounded(value):
    return kept(value, images=False, room_bytes=1 << 30)[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (1 << 70, str(1 << 70)),
        (0.5, 0.5),
        (float("nan"), "nan"),
        ("text", "text"),
        ("\ud800", "?"),
        (b"abc", {"bytes": 3}),
        (Size.SMALL, 1),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (Path("a/b"), "a/b"),
        ([1, "a"], [1, "a"]),
        ((1, 2), [1, 2]),
        ({"a": {"b": 1}, 2: 3}, {"a": {"b": 1}, "2": 3}),
        (Line("a", 0.5), {"text": "a", "score": 0.5}),
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (np.array([1.0, np.inf]), [1.0, "inf"]),
        (np.zeros((100, 100), np.uint8), {"dtype": "uint8", "shape": [100, 100]}),
        (Image.new("RGB", (3, 2)), {"image": {"width": 3, "height": 2, "mode": "RGB"}}),
        (Odd(), {"left out": "Odd"}),
    ],
)
def test_values(value, expected):
    assert bounded(value) == expected


def test_values_are_bounded():
    assert bounded("x" * 10_000) == "x" * (LONGEST_TEXT - 3) + "..."
    long = bounded(list(range(5000)))
    assert len(long) < 1001
    assert long[-1] == {"left out": 5000 - len(long) + 1}
    deep = []
    deep.append(deep)
    assert "left out" in json.dumps(bounded(deep))


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(NESTED)
def test_whatever_is_logged_is_json(value):
    assert isinstance(json.dumps(bounded(value), allow_nan=False), str)


def in_call(request_id, function):
    token = current_context.set(Context(request_id=request_id, timeline=Timeline("service Ocr.read", 2)))
    try:
        return function()
    finally:
        current_context.reset(token)


@pytest.fixture
def opened(tmp_path):
    made = []

    def make(**options):
        found = DataLog(DataLogOptions(folder=str(tmp_path / "data"), **options), service="Ocr", replica_id=3)
        made.append(found)
        data_log.use(found)
        return found

    yield make
    data_log.use(None)
    for each in made:
        each.close(10)


def lines(tmp_path):
    files = sorted((tmp_path / "data").glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def test_a_line(opened, tmp_path):
    found = opened()
    in_call("r1", lambda: trilith.log("reading", text="a", scores=np.array([0.5])))
    trilith.log("start", model="m")
    found.close(10)
    first, second = lines(tmp_path)
    assert first.pop("time").endswith("Z")
    assert first == {
        "name": "reading",
        "request_id": "r1",
        "service": "Ocr",
        "method": "Ocr.read",
        "replica": 3,
        "identity": "",
        "values": {"text": "a", "scores": [0.5]},
    }
    assert (second["request_id"], second["method"], second["values"]) == ("", "", {"model": "m"})


def test_without_a_server_it_does_nothing():
    trilith.log("reading", text="a")
    for wrong in ("", 3, "x" * 300):
        with pytest.raises(InvalidConfig):
            trilith.log(wrong)


def test_sampling_is_by_request_and_by_name(opened, tmp_path):
    found = opened(sample=0.5, samples={"all": 1.0, "none": 0.0})
    for number in range(200):
        in_call(f"r{number}", lambda: [trilith.log(name) for name in ("a", "b", "all", "none")])
    found.close(10)
    seen = {
        name: {line["request_id"] for line in lines(tmp_path) if line["name"] == name} for name in ("a", "b", "all")
    }
    assert seen["a"] == seen["b"]
    assert 50 < len(seen["a"]) < 150
    assert len(seen["all"]) == 200
    assert not any(line["name"] == "none" for line in lines(tmp_path))


def test_images_are_files_beside(opened, tmp_path):
    found = opened(images=True)
    image = Image.new("RGB", (3, 2), "red")
    trilith.log("page", image=image, deep=Image.new("F", (2, 2), 0.5))
    image.putpixel((0, 0), (0, 0, 0))  # what is kept is what it was
    found.close(10)
    [line] = lines(tmp_path)
    with Image.open(tmp_path / "data" / line["values"]["image"]["image"]) as saved:
        assert saved.getpixel((0, 0)) == (255, 0, 0)
    assert line["values"]["deep"]["image"].endswith(".tiff")


def test_a_full_queue_drops_and_counts(opened, tmp_path):
    found = opened()
    gate, entered = threading.Event(), threading.Event()
    real = found._files.write

    def held(line):
        entered.set()
        gate.wait(10)
        real(line)

    found._files.write = held
    dropped = instruments.declare(type(found._dropped), "trilith_data_log_dropped_total", "", ("name",), own=True)
    before = dropped.value(name="full")
    trilith.log("full")
    assert entered.wait(10)
    for _ in range(1100):
        trilith.log("full")
    assert dropped.value(name="full") - before == 100
    gate.set()
    found.close(10)
    assert len(lines(tmp_path)) == 1001


def test_what_waits_is_bounded_in_bytes_and_not_copied_before(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(data_log, "MOST_WAITING_BYTES", 1_000_000)
    found = opened(images=True)
    gate, entered = threading.Event(), threading.Event()
    real = found._files.write

    def held(line):
        entered.set()
        gate.wait(10)
        real(line)

    found._files.write = held
    before = found._dropped.value(name="picture")
    copies = []
    picture = Image.new("RGB", (300, 300))  # 360,000 bytes, as Pillow holds it
    monkeypatch.setattr(picture, "copy", lambda: copies.append(1) or Image.new("RGB", (300, 300)))
    trilith.log("picture", picture=picture)
    assert entered.wait(10)
    for _ in range(5):
        trilith.log("picture", picture=picture)
    assert (len(copies), found._dropped.value(name="picture") - before) == (2, 4)
    gate.set()
    found.close(10)
    assert len(lines(tmp_path)) == 2
    assert found._waiting_bytes == 0


def test_room_on_disk_is_bounded(opened, tmp_path):
    found = opened(max_bytes=64_000)
    for _ in range(40):
        trilith.log("much", text="x" * 3800)
    found.close(10)
    sizes = [path.stat().st_size for path in (tmp_path / "data").glob("*.jsonl")]
    assert 32_000 < sum(sizes) <= 64_000
    assert max(sizes) <= 4_000 + 4_000


def test_a_disk_that_fails_fails_the_log_alone(opened, tmp_path, caplog):
    (tmp_path / "data").write_text("no folder")
    found = opened()
    before = found._dropped.value(name="lost")
    trilith.log("lost")
    trilith.log("lost")
    found.close(10)
    assert found._dropped.value(name="lost") - before == 2
    assert len([record for record in caplog.records if "could not be written" in record.getMessage()]) == 1


def test_an_object_that_cannot_be_looked_at_fails_the_log_alone(opened, tmp_path):
    class Odd:
        def model_dump(self):
            raise OSError("the disk is gone")

    found = opened()
    before = found._dropped.value(name="odd")
    trilith.log("odd", value=Odd())
    trilith.log("odd", value=10**5000)
    trilith.log("odd", value=1)
    found.close(10)
    assert found._dropped.value(name="odd") - before == 2
    assert len(lines(tmp_path)) == 1


def test_samples_as_typed():
    assert read_samples(["0.1", "scores=0.5", "a=b=1"], "--x") == (0.1, {"scores": 0.5, "a=b": 1.0})
    assert read_samples([], "--x") == (1.0, {})
    for wrong in ("2", "-1", "x", "=1", "nan", "a="):
        with pytest.raises(InvalidConfig, match="--x takes a part"):
            read_samples([wrong], "--x")

import base64
import json

import numpy as np
import pytest

from trilith.core.tensor import DATATYPES, NUMPY_OF, DataType
from trilith.errors import InvalidConfig
from trilith.measure import parse_shapes
from trilith.measure.load.made_tensors import InputSpec, made_inputs

IMAGE = InputSpec(name="IMAGE", datatype="FP32", shape=(-1, 3, -1))
IDS = InputSpec(name="IDS", datatype="INT64", shape=(-1, 4))


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("source", ["zero", "random"])
def test_every_datatype_is_made_in_its_size(datatype, source):
    spec = InputSpec(name="X", datatype=datatype, shape=(-1, 5))
    for (tensor,) in made_inputs([spec], source, {"X": (2, 5)}):
        assert tensor.shape == (2, 5)
        item = NUMPY_OF[DataType(datatype)].itemsize if datatype != "BYTES" else 4 + 16 * (source == "random")
        assert len(tensor.raw) == 10 * item


def test_random_data_differs_from_request_to_request_and_repeats_with_the_seed():
    sets = made_inputs([IDS], "random", {}, seed=3)
    assert len({tensor.raw for (tensor,) in sets}) == len(sets) > 1
    assert sets == made_inputs([IDS], "random", {}, seed=3)
    assert len(made_inputs([IDS], "random", {"IDS": (1_000_000, 4)})) == 2  # no more than 64 MB in all


def test_open_sizes_are_asked_for_and_the_batch_may_be_left_out():
    with pytest.raises(InvalidConfig, match=r"--shape IMAGE.*-1,3,-1.*leaves open"):
        made_inputs([IMAGE], "zero", {})
    assert made_inputs([IMAGE], "zero", {"IMAGE": (3, 7)})[0][0].shape == (1, 3, 7)
    for wrong in ((2, 4, 7), (7,), (1, 1, 3, 7)):
        with pytest.raises(InvalidConfig, match="expected sizes for"):
            made_inputs([IMAGE], "zero", {"IMAGE": wrong})
    with pytest.raises(InvalidConfig, match="no such input; it has: IMAGE"):
        made_inputs([IMAGE], "zero", {"IMAGES": (1,)})


def test_shapes_are_read():
    assert parse_shapes(["A:1,3", "B:C:4"]) == {"A": (1, 3), "B:C": (4,)}
    for wrong in ("A", "A:", ":1", "A:1,x", "A:-1"):
        with pytest.raises(InvalidConfig, match="--shape"):
            parse_shapes([wrong])


def test_files_as_perf_analyzer_reads_them(tmp_path):
    raw = np.arange(4, dtype=np.int64).tobytes()
    text = InputSpec(name="TEXT", datatype="BYTES", shape=(-1, 2))
    entries = [
        {"IDS": [0, 1, 2, 3], "TEXT": ["a", "bc"]},
        {"IDS": {"b64": base64.b64encode(raw).decode()}, "TEXT": {"content": ["a", "bc"], "shape": [2]}},
        {"IDS": {"content": [[0, 1, 2, 3]], "shape": [1, 4]}, "TEXT": [["a", "bc"]]},
    ]
    (tmp_path / "in.json").write_text(json.dumps({"data": entries}))
    sets = made_inputs([IDS, text], str(tmp_path / "in.json"), {})
    assert len(sets) == 3
    assert set(sets) == {sets[0]}
    assert sets[0][0].raw == raw
    assert sets[0][1].raw == b"\1\0\0\0a\2\0\0\0bc"
    (tmp_path / "IDS").write_bytes(raw)
    assert made_inputs([IDS], str(tmp_path), {})[0][0].raw == raw


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"data": []}', '{"data": [{}]}', '{"data": [{"IDS": [1]}]}', '{"data": [{"IDS": {"b64": "?"}}]}',
     '{"data": [{"IDS": {"b64": "AAAA"}}]}', '{"data": [{"IDS": "x"}]}', '{"data": [{"IDS": {"content": null}}]}'],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(tmp_path, text):
    (tmp_path / "in.json").write_text(text)
    with pytest.raises(InvalidConfig, match=r"--input-data .*in.json"):
        made_inputs([IDS], str(tmp_path / "in.json"), {})
    with pytest.raises(InvalidConfig, match="cannot be read"):
        made_inputs([IDS], str(tmp_path / "none.json"), {})

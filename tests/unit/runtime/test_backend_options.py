"""Parameters and sessions of backends, the names of PyTorch's tensors, and libraries that are not installed."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidConfig, SetupError, UnknownReference
from trilith.runtime import ModelFile, ModelSpec
from trilith.runtime.backends import BackendKind, builtin_backends
from trilith.runtime.backends.identity import IdentityBackend
from trilith.runtime.backends.options import Options
from trilith.runtime.backends.tensor_order import positions
from trilith.runtime.repository import plan_model


def file(path=None, backend="pytorch", instance=0, **parameters):
    spec = ModelSpec(name="m", backend=backend, parameters=parameters)
    return ModelFile(model="m", version=1, path=path, spec=spec, instance=instance)


def test_parameters_by_kind():
    options = Options(file(a="Yes", b="0", c="2.5", d="7", e="x, y z"))
    assert (options.switch("a"), options.switch("b", True), options.switch("none", True)) == (True, False, True)
    assert (options.number("c", 0.0), options.number("none", 1.5)) == (2.5, 1.5)
    assert (options.count("d", 0), options.names("e"), options.names("none")) == (7, ["x", "y", "z"], [])
    options.finish()


@pytest.mark.parametrize(
    ("ask", "text", "says"),
    [
        (lambda options: options.switch("k"), "maybe", "parameters.k: must be true or false; got 'maybe'"),
        (lambda options: options.number("k", 0, most=2), "3", "must be a number from 0 to 2"),
        (lambda options: options.number("k", 0), "nan", "must be a number >= 0"),
        (lambda options: options.number("k", 0), "inf", "must be a number >= 0"),
        (lambda options: options.count("k", 0), "-1", "must be an integer from 0 to 1024"),
        (lambda options: options.count("k", 0), "²", "must be an integer from 0 to 1024"),
    ],
)
def test_parameters_that_are_wrong(ask, text, says):
    with pytest.raises(InvalidConfig, match=says):
        ask(Options(file(k=text)))


NAMES = st.lists(st.from_regex(r"[a-z]{1,3}", fullmatch=True), min_size=1, max_size=6, unique=True)


@given(NAMES, st.data())
def test_own_names_and_numbers_mean_the_same(own, data):
    order = data.draw(st.permutations(range(len(own))))
    assert positions("m", "input", [own[at] for at in order], own) == tuple(order)
    assert positions("m", "input", [f"INPUT__{at}" for at in order], own) == tuple(order)
    others = [f"other{at}x" for at in range(len(own))]
    assert positions("m", "input", others, own) == tuple(range(len(own)))


@given(st.lists(st.from_regex(r"[a-c](__[0-9])?", fullmatch=True), max_size=4, unique=True), NAMES)
def test_positions_are_distinct_and_there_or_an_error(configured, own):
    try:
        found = positions("m", "output", configured, own)
    except InvalidConfig:
        assert not set(configured) <= set(own)
        return
    assert len(set(found)) == len(found) == len(configured)
    assert all(0 <= at < len(own) for at in found)


@pytest.mark.parametrize(
    ("backend", "filename", "module", "extra", "content"),
    [
        ("pytorch", "model.pt", "torch", "pytorch", b"x"),
        ("openvino", "model.xml", "openvino", "openvino", b"<net>"),
        ("sklearn", "model.skops", "skops.io", "sklearn", b"x"),
        ("sklearn", "model.joblib", "joblib", "sklearn", b"x"),
        ("xgboost", "model.json", "xgboost", "xgboost", b"{}"),
        ("lightgbm", "model.txt", "lightgbm", "lightgbm", b"tree"),
        ("fil", "xgboost.json", "xgboost", "xgboost", b"{}"),
    ],
)
def test_a_library_that_is_not_installed_says_what_brings_it(
    tmp_path, monkeypatch, backend, filename, module, extra, content
):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / filename).write_bytes(content)
    parameters = {"allow_pickle": "true"} if filename == "model.joblib" else {}
    made = builtin_backends()[backend].create(file(tmp_path / filename, backend, **parameters))
    with pytest.raises(UnknownReference, match=rf"pip install 'trilith\[{extra}\]'"):
        made.load()
    made.close()


@pytest.mark.parametrize("backend", ["pytorch", "openvino", "sklearn", "xgboost", "lightgbm", "fil"])
def test_no_file_and_an_empty_one_need_no_library(tmp_path, monkeypatch, backend):
    for library in ("torch", "openvino", "sklearn", "xgboost", "lightgbm"):
        monkeypatch.setitem(sys.modules, library, None)
    kind = builtin_backends()[backend]
    path = tmp_path / kind.filename
    with pytest.raises(UnknownReference, match=f"there is no model file {path}"):
        kind.create(file(path, backend)).load()
    path.write_bytes(b"")
    with pytest.raises(SetupError, match="the file is empty"):
        kind.create(file(path, backend)).load()


def test_the_first_of_the_default_names_that_is_there_is_taken(tmp_path):
    kinds = {"own": BackendKind(create=IdentityBackend, filename="a.x", alternatives=("b.y", "c.x"))}

    def planned(*names, config=""):
        folder = tmp_path / "-".join(names)
        for version, name in enumerate(names, 1):
            (folder / str(version)).mkdir(parents=True)
            (folder / str(version) / name).write_bytes(b"x")
        (folder / "model.yaml").write_text(config + "\nversions: all")
        plan = plan_model(folder.name, folder, kinds)
        return plan.spec.backend, [file.path.name for file in plan.files]

    assert planned("b.y", "c.x", "a.x") == ("own", ["b.y", "c.x", "a.x"])
    assert planned("z", config="filename: z.y")[1] == ["z.y"]
    assert planned("q", config="backend: own")[1] == ["a.x"]  # so that the error names the usual file
    assert BackendKind(create=IdentityBackend).filenames == ()


def test_delays_of_instances():
    def delay_s(instance, **parameters):
        return IdentityBackend(file(backend="identity", instance=instance, **parameters))._delay_s

    assert [delay_s(at, execute_delay_ms="100", instance_wise_delay_multiplier="4") for at in (0, 1, 2)] == [
        0.1,
        0.4,
        0.8,
    ]
    assert delay_s(3, execute_delay_ms="100") == 0.1
    assert IdentityBackend(file(backend="identity")).concurrent
    assert not IdentityBackend(file(backend="identity", instance_wise_delay_multiplier="2")).concurrent
    with pytest.raises(InvalidConfig, match="creation_delay_sec"):
        IdentityBackend(file(backend="identity", creation_delay_sec="-1"))

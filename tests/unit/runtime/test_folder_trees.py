"""Whatever lies in a model's folder, it is an error of that model alone: links in circles, pipes, closed folders."""

import os
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trilith.errors import InvalidConfig, TrilithError, UnknownReference
from trilith.runtime import check_models, fingerprint
from trilith.runtime.backends import builtin_backends
from trilith.runtime.fingerprint import Boundless, Fingerprints, stamp_of
from trilith.runtime.folders import find_model_folders, find_models
from trilith.runtime.load_run import LoadRun
from trilith.runtime.overrides import Override
from trilith.runtime.planning import plan_load
from trilith.runtime.repository import plan_model
from trilith.runtime.roots import Roots
from trilith.runtime.steps import LoadRules

RULES = LoadRules(
    timeout_s=None,
    retries=0,
    config_name="",
    gpu_instances_on_cpu=False,
    keep_statistics=True,
    drain_timeout_s=1.0,
)
NAMES = (
    "1",
    "2",
    "01",
    "model.onnx",
    "model.py",
    "model.yaml",
    "config.pbtxt",
    "configs",
    "self",
    "\u00fc",
    "new\nline",
)
NAMES = (*NAMES, "a b", "bad\udcff", ".hidden", "__pycache__", "labels.txt")
MODELS = ("m", "n", "closed", "01", "model.onnx", "\u00fc", "new\nline", "a b", "bad\udcff", ".hidden", "__pycache__")
LEAVES = ("file", "pipe", "socket", "circle", "dangling", "root", "up", "device", "closed file", "in a closed folder")


def make(path, kind, aside):
    if kind == "file":
        path.write_bytes(b"max_batch_size: 4")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            here = os.open(path.parent, os.O_RDONLY)
            try:
                made.bind(f"/proc/self/fd/{here}/{path.name}".encode(errors="surrogateescape"))
            finally:
                os.close(here)
    elif kind == "closed file":
        path.write_bytes(b"x")
        path.chmod(0)
    else:
        aims = {"circle": path.name, "dangling": "nowhere", "root": "/", "up": "..", "device": "/dev/zero"}
        path.symlink_to(aims.get(kind, aside / "closed" / "m"))


trees = st.recursive(
    st.sampled_from(LEAVES),
    lambda children: st.dictionaries(st.sampled_from(NAMES), children, max_size=4),
    max_leaves=8,
)


def grow(path, tree, aside):
    if isinstance(tree, str):
        make(path, tree, aside)
        return
    path.mkdir()
    for name, child in tree.items():
        grow(path / name, child, aside)


def refuse(patch):
    """Folders named `closed` may not be entered, also by who may everything; as the system tells it."""

    def refusing(real, *, entering):
        def call(path=".", *rest, **more):
            if isinstance(path, str | Path):
                within = f"{os.path.realpath(path)}/" if entering else os.path.realpath(path)
                if "/closed/" in within:
                    raise PermissionError(13, "Permission denied", str(path))
            return real(path, *rest, **more)

        return call

    patch.setattr(os, "stat", refusing(os.stat, entering=False))
    patch.setattr(os, "scandir", refusing(os.scandir, entering=True))
    patch.setattr(os, "listdir", refusing(os.listdir, entering=True))


def model(folder, config=""):
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.onnx").write_bytes(b"x")
    if config:
        (folder / "config.pbtxt").write_text(config)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(repository=st.dictionaries(st.sampled_from(MODELS), trees, min_size=1, max_size=4))
def test_any_tree(repository):
    with tempfile.TemporaryDirectory(prefix="t") as folder, pytest.MonkeyPatch.context() as patch:
        root, aside = Path(folder) / "models", Path(folder) / "aside"
        model(aside / "closed" / "m")
        grow(root, repository, aside)
        model(root / "fine")
        refuse(patch)
        patch.setattr(fingerprint, "MOST_ENTRIES", 300)
        found = find_models([root])
        assert Roots([root], aside).find() == found
        seen, kinds = Fingerprints(), builtin_backends()
        for name, folders in found.items():
            assert seen.of(folders) == seen.of(folders) == Fingerprints().of(folders)
            assert find_model_folders(name, [root]) == folders
            for override in (None, Override(name, "{}", {})):
                try:
                    plan, standing = plan_load(Roots([root], aside), kinds, name, None, override, RULES, LoadRun())
                except TrilithError:
                    continue
                assert set(standing.versions) == {str(file.version) for file in plan.files}
        checked = {model.name: model for model in check_models(root)}
        assert checked["fine"].ok
        assert found.keys() <= checked.keys()


def test_one_that_cannot_be_looked_at_is_an_error_of_that_model(tmp_path, monkeypatch):
    for name in ("a", "closed", "z"):
        model(tmp_path / "models" / name)
    model(tmp_path / "models" / "version" / "closed")
    (tmp_path / "models" / "version" / "1").symlink_to("closed")
    (tmp_path / "models" / "link").symlink_to("closed/1")
    refuse(monkeypatch)
    found = find_models([tmp_path / "models"])
    assert sorted(found) == ["a", "closed", "link", "version", "z"]
    for name in ("closed", "link", "version"):
        with pytest.raises(UnknownReference, match="Permission denied"):
            plan_model(name, found[name][0], builtin_backends())
    assert [found.ok for found in check_models(tmp_path / "models")] == [True, False, False, False, True]


def test_a_version_that_may_not_be_entered_does_not_hide_the_others(tmp_path, monkeypatch):
    model(tmp_path / "m" / "closed")
    (tmp_path / "m" / "1").symlink_to("closed/1")
    (tmp_path / "m" / "2").mkdir()
    (tmp_path / "m" / "2" / "model.onnx").write_bytes(b"x")
    refuse(monkeypatch)
    assert [file.version for file in plan_model("m", tmp_path / "m", builtin_backends()).files] == [2]


@pytest.mark.parametrize("kind", ["pipe", "circle", "dangling", "device"])
@pytest.mark.parametrize("name", ["config.pbtxt", "model.yaml"])
def test_a_configuration_that_is_no_file_is_not_taken_for_none(tmp_path, kind, name):
    model(tmp_path / "models" / "m")
    make(tmp_path / "models" / "m" / name, kind, tmp_path)
    said = {"pipe": "is a pipe", "circle": "symbolic links", "dangling": "leads to nothing", "device": "is a device"}
    with pytest.raises(InvalidConfig, match=f"{name}: is .*{said[kind]}|{name}.*{said[kind]}"):
        plan_model("m", tmp_path / "models" / "m", builtin_backends())
    for path in (tmp_path / "models", tmp_path / "models" / "m"):
        (found,) = check_models(path)
        assert not found.ok
        assert said[kind] in found.problem


def test_a_link_to_a_large_tree_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "MOST_ENTRIES", 20)
    monkeypatch.setattr(fingerprint, "_digest_of", lambda *_: pytest.fail("a file is read"))
    (tmp_path / "large").mkdir()
    for number in range(30):
        (tmp_path / "large" / str(number)).write_bytes(b"x")
    (tmp_path / "m").symlink_to("large")
    assert Fingerprints().of([tmp_path / "m"]) == Fingerprints().of([tmp_path / "m"])
    with pytest.raises(Boundless, match=r"more than 20 files.*expected the files of one model"):
        stamp_of(tmp_path / "m")
    model(tmp_path / "models" / "o")
    (tmp_path / "models" / "o" / "1" / "link").symlink_to(tmp_path / "large")
    (found,) = check_models(tmp_path / "models")
    assert not found.ok
    assert "Does a link lead out of it?" in found.problem


def test_a_model_file_that_may_not_be_read_is_told_by_the_check(tmp_path, monkeypatch):
    model(tmp_path / "m")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (found,) = check_models(tmp_path / "m")
    assert (
        found.problem
        == f"{tmp_path / 'm' / '1' / 'model.onnx'}: may not be read by who runs this; change its permissions"
    )


def test_a_tree_without_end_is_looked_at_again_only_after_a_while_or_when_it_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "MOST_ENTRIES", 20)
    looked = []
    real = fingerprint._files
    monkeypatch.setattr(fingerprint, "_files", lambda folder, skip: (looked.append(folder), real(folder, skip))[1])
    (tmp_path / "m").mkdir()
    for number in range(30):
        (tmp_path / "m" / str(number)).write_bytes(b"x")
    seen = Fingerprints()
    first = seen.of([tmp_path / "m"])
    assert [seen.of([tmp_path / "m"]) for _ in range(3)] == [first] * 3
    assert len(looked) == 1
    monkeypatch.setattr(fingerprint, "_LOOK_AGAIN_S", 0.0)
    assert seen.of([tmp_path / "m"]) == first
    assert len(looked) == 2
    monkeypatch.undo()
    (tmp_path / "m" / "0").unlink()
    assert seen.of([tmp_path / "m"]) != first


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_where_the_operating_system_shows_itself_is_no_model(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "link").symlink_to("/proc/self")
    (tmp_path / "n").symlink_to("/proc/self")
    for name in ("m", "n"):
        with pytest.raises(Boundless, match=r"leads to .*where no files of a disk are"):
            stamp_of(tmp_path / name)


def test_what_is_no_file_is_not_opened(tmp_path):
    (tmp_path / "m").mkdir()
    for kind in ("pipe", "socket", "device", "circle", "dangling"):
        make(tmp_path / "m" / kind, kind, tmp_path)
    with (tmp_path / "m" / "hollow").open("wb") as file:
        file.truncate(1 << 43)
    assert Fingerprints().of([tmp_path / "m"]) == Fingerprints().of([tmp_path / "m"])
    assert [name for name, *_ in stamp_of(tmp_path / "m")] == ["hollow"]


def test_what_is_left_out_is_said_once(tmp_path, caplog):
    (tmp_path / "bad\udcff").mkdir()
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "self").symlink_to("self")
    model(tmp_path / "m")
    roots = Roots([tmp_path], tmp_path)
    for _ in range(3):
        assert list(roots.find()) == ["m"]
    assert len(caplog.messages) == 3
    assert any("bad\\xff" in said or "bad\\udcff" in said for said in caplog.messages)
    assert [found.name for found in check_models(tmp_path) if not found.ok] == ["bad\\udcff", "gone", "self"]


def test_a_name_that_is_too_long_is_none(tmp_path):
    assert find_model_folders("m" * 300, [tmp_path]) == []


def test_a_folder_instead_of_a_model_file_is_named(tmp_path):
    (tmp_path / "m" / "1" / "model.onnx").mkdir(parents=True)
    plan = plan_model("m", tmp_path / "m", builtin_backends())
    with pytest.raises(UnknownReference, match=r"1/model\.onnx is a folder without a file model\.onnx; expected"):
        plan.kind.create(plan.files[0]).load()


def test_a_model_file_that_is_no_file_is_named(tmp_path):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").symlink_to("nowhere")
    plan = plan_model("m", tmp_path / "m", builtin_backends())
    with pytest.raises(UnknownReference, match=r"1/model\.onnx is a link that leads to nothing; expected a model file"):
        plan.kind.create(plan.files[0]).load()

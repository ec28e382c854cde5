"""Folders become plans; what is wrong is said with the folder's name."""

import pytest

from trilith.errors import InvalidConfig, UnknownReference
from trilith.runtime import ModelSpec
from trilith.runtime.backends import builtin_backends
from trilith.runtime.folders import find_model_folders, find_models
from trilith.runtime.repository import plan_model, read_labels
from trilith.runtime.spec import DeclaredTensor

KINDS = builtin_backends()


def model(folder, *versions, filename="model.onnx"):
    for version in versions:
        path = folder / version / filename
        path.parent.mkdir(parents=True)
        path.touch()
    return folder


def test_only_folders_are_models(tmp_path):
    for name in ("a", "b", ".git", "__pycache__", "lost+found", "System Volume Information"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").touch()
    assert find_models([tmp_path]) == {"a": [tmp_path / "a"], "b": [tmp_path / "b"]}
    with pytest.raises(UnknownReference, match="is not a folder"):
        find_models([tmp_path / "README.md"])


def test_one_model_is_found_as_among_all(tmp_path):
    roots = [tmp_path / "x", tmp_path / "y"]
    for root in roots:
        (root / "a").mkdir(parents=True)
    (roots[0] / ".git").mkdir()
    (roots[0] / "lost+found").mkdir()
    (roots[0] / "file").touch()
    found = find_models(roots)
    for name in ("a", "b", ".git", "lost+found", "file", "", "..", "../x", "../x/a"):
        assert find_model_folders(name, roots) == found.get(name, [])


def test_the_latest_version_is_planned(tmp_path):
    plan = plan_model("m", model(tmp_path / "m", "1", "2", "10"), KINDS)
    assert [(file.version, file.path) for file in plan.files] == [(10, tmp_path / "m" / "10" / "model.onnx")]
    assert plan.spec.backend == "onnxruntime"


def test_the_backend_is_found_by_the_file_that_is_named(tmp_path):
    folder = model(tmp_path / "m", "1", filename="net.onnx")
    with pytest.raises(UnknownReference, match=r"cannot tell how to run model 'm'.*model.onnx.*the versions 1"):
        plan_model("m", folder, KINDS)
    (folder / "model.yaml").write_text("filename: net.onnx")
    assert plan_model("m", folder, KINDS).files[0].path == folder / "1" / "net.onnx"


def test_a_backend_that_the_files_name_reads_what_the_configuration_says_to_it(tmp_path):
    folder = model(tmp_path / "m", "1")
    config = folder / "config.pbtxt"
    config.write_text('parameters { key: "intra_op_thread_count" value { string_value: "3" } }')
    assert plan_model("m", folder, KINDS).spec.session.intra_op_threads == 3
    config.write_text('parameters { key: "enable_mem_arena" value { string_value: "3" } }')
    with pytest.raises(InvalidConfig, match=r"m/config.pbtxt: parameters.enable_mem_arena: must be 0 or 1"):
        plan_model("m", folder, KINDS)


def test_a_backend_without_files_needs_no_version(tmp_path):
    folder = model(tmp_path / "m")
    folder.mkdir()
    (folder / "model.yaml").write_text("backend: identity")
    (file,) = plan_model("m", folder, KINDS).files
    assert (file.version, file.path) == (1, None)


def test_a_file_alone_is_a_model(tmp_path):
    path = tmp_path / "net.onnx"
    with pytest.raises(UnknownReference, match="neither a folder nor a file"):
        plan_model("m", path, KINDS)
    path.touch()
    (file,) = plan_model("m", path, KINDS).files
    assert (file.version, file.path) == (1, path)


@pytest.mark.parametrize(
    ("versions", "config", "error", "says"),
    [
        ((), "backend: onnxruntime", UnknownReference, "at least one version .* found no version folder"),
        (("2",), "versions: [1, 3]", UnknownReference, "found the versions 2, wanted are 1, 3"),
        (("1",), "source: 'file:x.onnx'", InvalidConfig, "source: the folder holds versions of its own"),
        (("1",), "filename: /etc/model.onnx", InvalidConfig, "must lie in the folder"),
        (
            ("1",),
            "backend: nope",
            InvalidConfig,
            "wants 'nope'; the backends here are fil, identity, ",
        ),
    ],
)
def test_what_cannot_be_planned(tmp_path, versions, config, error, says):
    folder = model(tmp_path / "m", *versions)
    folder.mkdir(exist_ok=True)
    (folder / "model.yaml").write_text(config)
    with pytest.raises(error, match=says):
        plan_model("m", folder, KINDS)


def test_labels(tmp_path):
    def spec(filename):
        return ModelSpec(name="m", outputs=(DeclaredTensor(name="y", label_filename=filename),))

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "labels.txt").write_text("cat\ndog\n")
    assert read_labels(tmp_path / "m", spec("labels.txt")) == {"y": ("cat", "dog")}
    with pytest.raises(InvalidConfig, match="cannot be read"):
        read_labels(tmp_path / "m", spec("missing.txt"))
    with pytest.raises(InvalidConfig, match="must lie in the model's folder"):
        read_labels(tmp_path / "m", spec("../secret.txt"))

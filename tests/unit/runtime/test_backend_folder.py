"""The registry of backends that lie in a folder, and instances that ask for GPUs."""

import asyncio

import pytest

from trilith.errors import InvalidConfig
from trilith.runtime import BackendKind, Runtime, RuntimeConfig, check_models
from trilith.runtime.backends import all_backends, builtin_backends
from trilith.runtime.backends.folder import kind_name
from trilith.runtime.devices import on_cpus, refuse_gpus
from trilith.runtime.model_pbtxt import parse_model_pbtxt


def test_those_of_the_folder_stand_behind_those_that_are_given(tmp_path):
    for name in ("own", "onnxruntime", "empty"):
        (tmp_path / name).mkdir()
    for path in ("own/model.py", "own/fast.py", "onnxruntime/model.py", "model.py"):
        (tmp_path / path).write_text("")
    further = {"echo": BackendKind(create=lambda file: None)}
    kinds = all_backends(further=further, folder=tmp_path)
    assert set(kinds) == {*builtin_backends(), "echo", "own"}
    assert len(kinds) == len(builtin_backends()) + 2
    assert kinds["own"].script == kinds["own/model.py"].script == tmp_path / "own" / "model.py"
    assert kinds["own/fast.py"].script == tmp_path / "own" / "fast.py"
    assert kinds["onnxruntime"].filename == "model.onnx", "its name is taken"
    assert kinds["onnxruntime/model.py"].script == tmp_path / "onnxruntime" / "model.py"
    assert kinds["echo"] is further["echo"]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/", "../own", "own/../own/model.py", "own//model.py", "empty", "o\0wn", "x" * 300, "own/no.py"],
)
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    (tmp_path / "all" / "own").mkdir(parents=True)
    (tmp_path / "all" / "own" / "model.py").write_text("")
    (tmp_path / "all" / "empty").mkdir()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "model.py").write_text("")
    kinds = all_backends(folder=tmp_path / "all")
    assert name not in kinds
    assert set(all_backends(folder=tmp_path / "nowhere")) == set(all_backends()) == set(builtin_backends())


def test_a_runtime_that_is_python_chooses_the_file():
    assert kind_name("own", "") == "own"
    assert kind_name("own", "fast.py") == "own/fast.py"
    assert kind_name("onnxruntime", "libtriton_onnxruntime.so") == "onnxruntime"


def test_a_library_is_refused_unless_it_is_the_backend_itself(tmp_path):
    (tmp_path / "m").mkdir()
    config = tmp_path / "m" / "config.pbtxt"
    tensors = 'input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }'
    for library, ok in (("libtriton_identity.so", True), ("libtriton_mine.so", False), ("mine", False)):
        config.write_text(f'backend: "identity" runtime: "{library}" {tensors}')
        (found,) = check_models(tmp_path)
        assert found.ok is ok, found
        assert ok or f"runtime: must be the Python file of a backend of your own (`model.py`), got '{library}'" in (
            found.problem
        )


GROUPS = [
    ("kind: KIND_GPU count: 2", "instance_group[0].kind: KIND_GPU asks for a GPU"),
    ("gpus: [ 0, 1 ]", "instance_group[0].gpus: [0, 1] asks for a GPU"),
]


@pytest.mark.parametrize(("group", "says"), GROUPS)
def test_a_gpu_is_refused_or_by_option_a_cpu(tmp_path, group, says):
    spec = parse_model_pbtxt(f'backend: "identity" instance_group {{ {group} }}', "m", source="c")
    with pytest.raises(InvalidConfig, match=r"say `instance_group .* or start the server with --gpu-instances-on-cpu"):
        refuse_gpus(spec, "c")
    moved = on_cpus(spec)
    refuse_gpus(moved, "c")
    (old,), (new,) = spec.instances.groups, moved.instances.groups
    assert (new.kind, new.gpus, new.count) == ("KIND_CPU", (), old.count)
    assert on_cpus(moved) is moved
    (tmp_path / "m").mkdir()
    text = f'backend: "identity" input {{ name: "x" data_type: TYPE_FP32 dims: 1 }} instance_group {{ {group} }}'
    (tmp_path / "m" / "config.pbtxt").write_text(text)
    (found,) = check_models(tmp_path)
    assert says in found.problem
    (found,) = check_models(tmp_path, gpu_instances_on_cpu=True)
    assert found.ok, found.problem
    assert says.replace(" asks for a GPU", " has no effect: it runs on a CPU") in found.without_effect[0]


def test_a_runtime_refuses_it_or_says_in_the_log_where_it_runs(tmp_path, caplog):
    (tmp_path / "m" / "1").mkdir(parents=True)
    tensors = 'input { name: "x" data_type: TYPE_FP32 dims: 1 } output { name: "y" data_type: TYPE_FP32 dims: 1 }'
    (tmp_path / "m" / "config.pbtxt").write_text(
        f'backend: "identity" {tensors} instance_group [ {{ kind: KIND_GPU count: 2 gpus: [ 0, 1 ] }}, {{ count: 1 }} ]'
    )

    async def told(**options):
        async with Runtime(tmp_path, config=RuntimeConfig(**options)) as runtime:
            model = runtime.model("m")
            return model.ready, model.reason, model.config_proto().instance_group

    ready, reason, _ = asyncio.run(told())
    assert not ready
    assert reason.startswith(f"{tmp_path}/m/config.pbtxt: instance_group[0].kind: KIND_GPU asks for a GPU")
    ready, _, groups = asyncio.run(told(gpu_instances_on_cpu=True))
    assert ready
    assert [(group.kind, group.count, list(group.gpus)) for group in groups] == [(2, 2, []), (2, 1, [])]
    assert "model 'm': instance_group[0].kind: KIND_GPU asks for a GPU; it runs on a CPU, as --gpu-inst" in caplog.text

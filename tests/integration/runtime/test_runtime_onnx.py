"""Model folders with real ONNX files, from disk to answers."""

import asyncio
import platform
import subprocess
import sys
import textwrap
import threading

import numpy as np
import onnx
import pytest
from onnx_models import WEIGHTS, save_mlp, save_reshape, save_text, save_tiny

from trilith.core.context import Context
from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.core.timeline import Timeline
from trilith.errors import InvalidInput, ModelError, NoReadyReplica, SetupError, UnknownModel, UnknownReference
from trilith.runtime import ModelFile, ModelSpec, ModelState, Runtime, RuntimeConfig, check_models
from trilith.runtime.backends.onnxruntime import OnnxRuntimeBackend
from trilith.testing.backend_contract import BACKEND_CHECKS


def request(model="mlp", version="", outputs=(), name="x", **_):
    return InferRequest(model=model, inputs={name: np.ones((1, 4), np.float32)}, version=version, outputs=outputs)


def test_a_bare_file_is_served(repository, run):
    save_mlp(repository / "mlp" / "1" / "model.onnx", metadata={"character": "a\nb"})

    async def main():
        async with Runtime(repository) as runtime:
            assert runtime.ready
            handle = runtime.model("mlp")
            assert handle.inputs == (TensorSpec(name="x", datatype=DataType.FP32, shape=(-1, 4)),)
            assert [spec.name for spec in handle.outputs] == ["y", "sum"]
            assert (handle.max_batch_size, handle.backend, handle.platform) == (4, "onnxruntime", "onnxruntime_onnx")
            assert (handle.version, handle.versions, handle.state) == ("1", ("1",), "READY")
            assert handle.metadata == {"character": "a\nb"}
            x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
            answer = await runtime.infer(InferRequest(model="mlp", inputs={"x": x}, id="7", outputs=("sum", "y")))
            assert (answer.model, answer.version, answer.id, list(answer.outputs)) == ("mlp", "1", "7", ["sum", "y"])
            expected = np.maximum(x @ WEIGHTS, 0)
            np.testing.assert_allclose(answer.outputs["y"], expected, rtol=1e-5)
            np.testing.assert_allclose(answer.outputs["sum"], expected.sum(1, keepdims=True), rtol=1e-5)

    run(main())


@pytest.mark.parametrize("config", ["", 'platform: "onnxruntime_onnx"'])
def test_a_model_with_external_data_lies_in_a_folder(repository, run, config):
    version = repository / "mlp" / "1"
    model = onnx.load(save_mlp(repository.parent / "whole.onnx"))
    (version / "model.onnx").mkdir(parents=True)
    onnx.save(
        model, version / "model.onnx" / "model.onnx", save_as_external_data=True, location="weights", size_threshold=64
    )
    assert (version / "model.onnx" / "weights").stat().st_size > 0
    if config:
        (repository / "mlp" / "config.pbtxt").write_text(config)
    assert [found.ok for found in check_models(repository)] == [True]

    async def main():
        async with Runtime(repository) as runtime:
            answer = await runtime.infer(request())
            np.testing.assert_allclose(answer.outputs["y"], np.maximum(np.ones((1, 4)) @ WEIGHTS, 0), rtol=1e-5)

    run(main())


@pytest.mark.parametrize("arena", ["0", "1"])
@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0;gpu:0", "gpu:0"])
def test_the_arena_may_shrink_after_each_run(repository, run, arena, devices):
    save_mlp(repository / "mlp" / "1" / "model.onnx")
    (repository / "mlp" / "config.pbtxt").write_text(
        f"""
        parameters {{ key: "memory.enable_memory_arena_shrinkage" value {{ string_value: "{devices}" }} }}
        parameters {{ key: "enable_mem_arena" value {{ string_value: "{arena}" }} }}
        parameters {{ key: "gpu_mem_limit" value {{ string_value: "1" }} }}
        parameters {{ key: "owner" value {{ string_value: "me" }} }}
        """
    )

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(request())).outputs["y"].shape == (1, 3)
            assert runtime.model("mlp").config_proto().parameters["owner"].string_value == "me"

    run(main())


def test_a_fixed_shape_does_not_batch(repository, run):
    save_mlp(repository / "mlp" / "1" / "model.onnx", batch=1)

    async def main():
        async with Runtime(repository) as runtime:
            assert runtime.model("mlp").max_batch_size == 0
            answers = await asyncio.gather(*(runtime.infer(request()) for _ in range(5)))
            assert all(answer.outputs["y"].shape == (1, 3) for answer in answers)
            assert runtime.statistics("mlp")[0].execution_count == 5

    run(main())


def test_text_goes_in_and_comes_out_as_bytes(repository, run):
    save_text(repository / "text" / "1" / "model.onnx")
    texts = np.array([[b"a", "é".encode()]], object)

    async def main():
        async with Runtime(repository) as runtime:
            good, bad = InferRequest(model="text", inputs={"x": texts}), np.array([[b"a", b"\xff"]], object)
            answers = await asyncio.gather(
                runtime.infer(good),
                runtime.infer(InferRequest(model="text", inputs={"x": bad})),
                runtime.infer(good),
                return_exceptions=True,
            )
            assert [answers[0].outputs["y"].tolist(), answers[2].outputs["y"].tolist()] == [texts.tolist()] * 2
            assert isinstance(answers[1], InvalidInput)

    run(main())


def test_shapes_batch_apart_and_a_failure_stays_alone(repository, run):
    save_reshape(repository / "reshape" / "1" / "model.onnx")

    def of(width):
        return InferRequest(model="reshape", inputs={"x": np.zeros((1, width), np.float32)})

    async def main():
        async with Runtime(repository) as runtime:
            answers = await asyncio.gather(
                *(runtime.infer(of(width)) for width in (3, 4, 3, 4, 3)), return_exceptions=True
            )
            assert [type(answer).__name__ for answer in answers] == ["InferResponse", "ModelError"] * 2 + [
                "InferResponse"
            ]
            with pytest.raises(ModelError, match="model 'reshape' failed"):
                raise answers[1]

    run(main())


def test_a_corrupt_file_leaves_the_others_alone(repository, run, caplog):
    save_mlp(repository / "mlp" / "1" / "model.onnx")
    good = (repository / "mlp" / "1" / "model.onnx").read_bytes()
    for name, content in (("cut", good[: len(good) // 2]), ("noise", b"\x00\xff" * 50), ("empty", b"")):
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "1" / "model.onnx").write_bytes(content)

    async def main():
        async with Runtime(repository) as runtime:
            assert not runtime.ready
            await runtime.infer(request())
            for name in ("cut", "noise", "empty"):
                handle = runtime.model(name)
                assert handle.state is ModelState.UNAVAILABLE
                assert f"{name}/1/model.onnx: ONNX Runtime cannot load this file" in handle.reason
                with pytest.raises(NoReadyReplica, match=f"'{name}' version 1 is not at ready state") as caught:
                    await runtime.infer(request(model=name))
                assert str(repository) not in caught.value.message
                (repository / name / "1" / "model.onnx").write_bytes(good)
                await runtime.load(name)
            assert runtime.ready

    run(main())
    assert "model 'cut' is unavailable" in caplog.text


def test_wrong_configurations_are_reasons(repository, run, caplog):
    save_mlp(repository / "both" / "1" / "model.onnx")
    (repository / "both" / "model.yaml").write_text("")
    (repository / "both" / "config.pbtxt").write_text("")
    save_mlp(repository / "fixed" / "1" / "model.onnx", batch=1)
    (repository / "fixed" / "model.yaml").write_text("max_batch_size: 8")
    save_mlp(repository / "typo" / "1" / "model.onnx")
    (repository / "typo" / "model.yaml").write_text("instance: 2")
    (repository / "nothing").mkdir()
    (repository / "alien" / "1").mkdir(parents=True)
    (repository / "alien" / "config.pbtxt").write_text('backend: "tensorrt"')
    save_mlp(repository / "outside" / "1" / "model.onnx")
    (repository / "outside" / "model.yaml").write_text("filename: ../../../secret.onnx\n")
    (repository / "queue" / "1").mkdir(parents=True)
    (repository / "queue" / "model.yaml").write_text("backend: identity\nmax_batch_size: 8\nqueue: {max_rows: 4}\n")
    expected = {
        "alien": "wants 'tensorrt'; the backends here are fil, identity, ",
        "both": "holds config.pbtxt and model.yaml",
        "fixed": "max_batch_size: must be 0, got 8",
        "nothing": "cannot tell how to run model 'nothing'",
        "outside": "must lie in the folder",
        "queue": "queue.max_rows: must be at least",
        "typo": "model.yaml: instance: unknown key; did you mean 'instances'?",
    }

    async def main():
        async with Runtime(repository) as runtime:
            assert {handle.name: handle.state for handle in runtime.models()} == dict.fromkeys(
                expected, ModelState.UNAVAILABLE
            )
            for name, says in expected.items():
                assert says in runtime.model(name).reason

    run(main())
    assert len(caplog.records) == len(expected)


def test_versions(repository, run):
    for version, factor in ((1, 1.0), (2, 2.0), (10, 10.0)):
        save_mlp(repository / "mlp" / str(version) / "model.onnx", factor=factor)
    for name in ("03", "x", "0"):
        (repository / "mlp" / name).mkdir()
    (repository / "mlp" / "config.pbtxt").write_text("version_policy { specific { versions: [1, 10] } }")

    async def main():
        async with Runtime(repository) as runtime:
            assert runtime.model("mlp").versions == ("1", "10")
            first, last = await runtime.infer(request(version="1")), await runtime.infer(request())
            assert last.version == "10"
            np.testing.assert_allclose(last.outputs["y"], 10 * first.outputs["y"])
            with pytest.raises(UnknownModel, match="'mlp' version 2 is not found; its versions are 1, 10"):
                await runtime.infer(request(version="2"))
            assert len(runtime.statistics("mlp")) == 2
            with pytest.raises(UnknownModel, match="'nope' is not found; the models here are mlp"):
                runtime.statistics("nope")

    run(main())


def test_a_source_is_fetched_when_the_model_is_loaded(repository, run, tmp_path):
    path = save_mlp(tmp_path / "elsewhere" / "net.onnx")
    (repository / "mlp").mkdir()
    (repository / "mlp" / "model.yaml").write_text(f"source: 'file:{path}'\nversion: 7\n")

    async def main():
        async with Runtime(repository) as runtime:
            assert (await runtime.infer(request())).version == "7"

    run(main())


def test_load_from_anywhere_and_unload(repository, run, tmp_path):
    path = save_mlp(tmp_path / "elsewhere" / "net.onnx")

    async def main():
        async with Runtime(repository) as runtime:
            handle = await runtime.load("mlp", path)
            assert (handle.version, handle.max_batch_size) == ("1", 4)
            await runtime.infer(request())
            assert (await runtime.load("mlp")).ready
            await runtime.unload("mlp")
            assert (runtime.model("mlp").state, runtime.model("mlp").reason) == (ModelState.UNAVAILABLE, "unloaded")
            assert runtime.ready
            with pytest.raises(UnknownModel, match="'mlp' has no available versions"):
                await runtime.infer(request())
            with pytest.raises(UnknownModel):
                await runtime.unload("nope")
            with pytest.raises(UnknownReference, match="no such model folder"):
                await runtime.load("nope")
            assert runtime.model("nope").state is ModelState.UNAVAILABLE

    run(main())


def test_a_reload_that_fails_keeps_the_old(repository, run):
    path = save_mlp(repository / "mlp" / "1" / "model.onnx")

    async def main():
        async with Runtime(repository) as runtime:
            save_mlp(path, factor=3.0)
            await runtime.load("mlp")
            before = (await runtime.infer(request())).outputs["y"]
            np.testing.assert_allclose(before, 3 * np.maximum(np.ones((1, 4)) @ WEIGHTS, 0))
            path.write_bytes(b"broken")
            with pytest.raises(SetupError, match="cannot load this file"):
                await runtime.load("mlp")
            assert runtime.ready
            np.testing.assert_array_equal((await runtime.infer(request())).outputs["y"], before)

    run(main())


def test_many_callers_of_two_instances(repository, run):
    save_mlp(repository / "mlp" / "1" / "model.onnx")
    (repository / "mlp" / "model.yaml").write_text("instances: 2\nmax_batch_size: 8\n")
    before = set(threading.enumerate())  # of other tests of this process

    async def main():
        async with Runtime(repository) as runtime:

            async def caller(seed):
                generator = np.random.default_rng(seed)
                for _ in range(20):
                    x = generator.normal(size=(int(generator.integers(1, 9)), 4)).astype(np.float32)
                    answer = await runtime.infer(InferRequest(model="mlp", inputs={"x": x}, id=str(seed)))
                    assert answer.id == str(seed)
                    np.testing.assert_allclose(answer.outputs["y"], np.maximum(x @ WEIGHTS, 0), rtol=1e-4, atol=1e-5)
                    await asyncio.sleep(0)

            await asyncio.gather(*(caller(seed) for seed in range(16)))
            (statistics,) = runtime.statistics()
            assert statistics.success.count == 320
            assert statistics.execution_count < 320

    run(main())
    left = {thread.name for thread in set(threading.enumerate()) - before} - {"trilith end of main"}  # one a process
    assert not [name for name in left if name.startswith("trilith")]


def test_the_configuration_is_told_in_triton_s_words(repository, run):
    save_mlp(repository / "mlp" / "1" / "model.onnx")
    (repository / "mlp" / "config.pbtxt").write_text(
        'max_batch_size: 8 output { name: "y" label_filename: "labels.txt" } instance_group { count: 2 } '
        "dynamic_batching { max_queue_delay_microseconds: 100 }"
    )
    (repository / "mlp" / "labels.txt").write_text("cat\ndog\nbird\n")

    async def main():
        async with Runtime(repository) as runtime:
            handle = runtime.model("mlp")
            assert handle.labels == {"y": ("cat", "dog", "bird")}
            config = handle.config_proto()
            assert (config.name, config.platform, config.max_batch_size) == ("mlp", "onnxruntime_onnx", 8)
            assert [(entry.name, list(entry.dims)) for entry in config.input] == [("x", [4])]
            assert [(entry.name, entry.label_filename) for entry in config.output] == [("y", "labels.txt")]
            assert config.instance_group[0].count == 2
            assert config.dynamic_batching.max_queue_delay_microseconds == 100
            assert config.version_policy.latest.num_versions == 1
            assert config.default_model_filename == "model.onnx"

    run(main())


def test_the_timeline_says_where_the_time_went(repository, run):
    save_mlp(repository / "mlp" / "1" / "model.onnx")

    async def main():
        async with Runtime(repository) as runtime:
            context = Context(request_id="1", timeline=Timeline("gateway", 3))
            await runtime.infer(request(), context)
            (child,) = context.timeline.children
            assert (child.name, child.floor) == ("model mlp", 1)
            assert [stage for stage, _ in child.stamps] == ["queued", "batched", "started", "input", "infer", "output"]
            instants = [instant for _, instant in child.stamps]
            assert instants == sorted(instants)

    run(main())


def test_session_options_are_honoured(repository, run):
    save_mlp(repository / "mlp" / "1" / "model.onnx")
    (repository / "mlp" / "model.yaml").write_text("session: {providers: [NoSuchProvider]}")

    async def main():
        async with Runtime(repository, config=RuntimeConfig(load_at_start=())) as runtime:
            assert runtime.models() == []
            with pytest.raises(SetupError, match=r"session.providers: 'NoSuchProvider' is not among"):
                await runtime.load("mlp")

    run(main())


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="its control register is not known")
@pytest.mark.parametrize("threads", [1, 2])
def test_denormals_are_flushed_where_the_model_computes_and_nowhere_else(repository, run, threads):
    for name, flushed in (("a-on", "true"), ("b-off", "false"), ("c-on", "true")):
        save_tiny(repository / name / "1" / "model.onnx")
        (repository / name / "model.yaml").write_text(
            f"instances: 2\nsession: {{denormal_as_zero: {flushed}, intra_op_threads: {threads}}}"
        )
    x = np.full((1, 16), 1e-20, np.float32)

    async def main():
        async with Runtime(repository) as runtime:
            for name, expected in (("a-on", True), ("b-off", False), ("c-on", True)):
                answers = [await runtime.infer(InferRequest(model=name, inputs={"x": x})) for _ in range(4)]
                assert [bool((answer.outputs["y"] == 0).all()) for answer in answers] == [expected] * 4
            assert (x * np.float32(1e-20) != 0).all()

    run(main())


def test_opening_a_session_leaves_the_thread_alone(tmp_path):
    """In a process of its own, because ONNX Runtime does it for the first session only."""
    code = """
        import pathlib, sys
        import numpy as np
        from trilith.runtime import ModelFile, ModelSpec
        from trilith.runtime.backends.onnxruntime import OnnxRuntimeBackend
        file = ModelFile(model="m", version=1, path=pathlib.Path(sys.argv[1]), spec=ModelSpec(name="m"))
        OnnxRuntimeBackend(file).load()
        assert np.full(1, 1e-20, "f4") * np.float32(1e-20) != 0
    """
    path = save_mlp(tmp_path / "model.onnx")
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], check=True)


def test_onnxruntime_missing_is_said(repository, run, monkeypatch):
    save_mlp(repository / "mlp" / "1" / "model.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)

    async def main():
        async with Runtime(repository, config=RuntimeConfig(load_at_start=())) as runtime:
            with pytest.raises(UnknownReference, match="pip install onnxruntime"):
                await runtime.load("mlp")

    run(main())


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("save_model", [save_mlp, save_text], ids=["mlp", "text"])
def test_onnxruntime_keeps_the_contract(check, save_model, tmp_path):
    path = save_model(tmp_path / "model.onnx")
    check(lambda: OnnxRuntimeBackend(ModelFile(model="m", version=1, path=path, spec=ModelSpec(name="m"))))

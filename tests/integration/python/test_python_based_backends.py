"""Backends that are a folder with a `model.py`: one file serves many models, as Triton's Python-based backends do."""

import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from python_models import HEAD, ask

from trilith.errors import NoReadyReplica
from trilith.runtime import ControlMode, Runtime, RuntimeConfig, check_models

SCALED = (
    HEAD
    + """
import shared  # lies beside this file


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_max_batch_size(4)
        return config

    def initialize(self, args):
        with open(os.path.join(pb_utils.get_model_dir(), "factor.json")) as file:
            self.factor = json.load(file)
        assert args["model_repository"] == os.path.dirname(pb_utils.get_model_dir())
        assert json.loads(args["model_config"])["backend"] == "scaled"

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([
                pb_utils.Tensor("y", shared.times(request.inputs()[0].as_numpy(), self.factor))
            ])
            for request in requests
        ]
"""
)
SHARED = "def times(array, factor):\n    return array * factor\n"


@pytest.fixture
def backends(tmp_path):
    folder = tmp_path / "backends" / "scaled"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(SCALED)
    (folder / "shared.py").write_text(SHARED)
    return folder.parent


def write_scaled(repository, name, factor, config='backend: "scaled"'):
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "factor.json").write_text(str(factor))
    (folder / "config.pbtxt").write_text(config)


def test_a_file_of_a_backend_serves_many_models_and_each_finds_its_own_folder(repository, backends, run):
    write_scaled(repository, "doubled", 2)
    write_scaled(repository, "tripled", 3, 'backend: "scaled" runtime: "model.py" instance_group { count: 2 }')
    config = RuntimeConfig(backend_directory=str(backends))

    async def main():
        async with Runtime(repository, config=config) as runtime:
            assert (await runtime.infer(ask("doubled", 7))).outputs["y"].tolist() == [[14]]
            assert (await runtime.infer(ask("tripled", 7))).outputs["y"].tolist() == [[21]]
            assert len(runtime.processes("tripled", "1")) == 2
            told = runtime.model("tripled").config_proto()
            assert (told.backend, told.runtime, told.max_batch_size) == ("scaled", "model.py", 4)

    run(main())


def test_a_backend_may_come_while_the_server_runs(repository, backends, run):
    write_scaled(repository, "doubled", 2, 'backend: "late"')
    config = RuntimeConfig(backend_directory=str(backends), mode=ControlMode.EXPLICIT, load_at_start=("*",))

    async def main():
        async with Runtime(repository, config=config) as runtime:
            with pytest.raises(NoReadyReplica):
                await runtime.infer(ask("doubled", 7))
            assert "with a model.py, and --backend-directory says where" in runtime.model("doubled").reason
            (backends / "late").mkdir()
            text = SCALED.replace('== "scaled"', '== "late"')
            (backends / "late" / "model.py").write_text(text)
            (backends / "late" / "shared.py").write_text(SHARED)
            await runtime.load("doubled")
            assert (await runtime.infer(ask("doubled", 7))).outputs["y"].tolist() == [[14]]

    run(main())


def test_what_is_wrong_with_the_file_is_said_without_running_it(repository, backends):
    write_scaled(repository, "doubled", 2)
    write_scaled(repository, "lost", 2, 'backend: "scaled" runtime: "other.py"')
    write_scaled(repository, "native", 2, 'backend: "scaled" runtime: "libtriton_scaled.so"')
    write_scaled(repository, "away", 2, 'backend: "../backends/scaled"')
    (repository / "yaml" / "1").mkdir(parents=True)
    (repository / "yaml" / "model.yaml").write_text("backend: scaled\nruntime: model.py\n")
    found = {model.name: model for model in check_models(repository, backend_directory=backends)}
    assert found["doubled"].ok
    assert found["yaml"].ok
    assert (
        f"Backend scaled, which is {backends / 'scaled' / 'model.py'}; version 1 would be"
        in found["doubled"].meaning[0]
    )
    assert "as many rows as model.py says" in " ".join(found["doubled"].meaning)
    assert "'scaled' with the runtime 'other.py'; the backends here are fil, " in found["lost"].problem
    assert not found["away"].ok
    assert found["native"].ok, "that is what it is called in Triton"
    (backends / "scaled" / "model.py").write_text("class Other: ...")
    found = {model.name: model for model in check_models(repository, backend_directory=backends)}
    assert "has no class TritonPythonModel" in found["doubled"].problem
    assert "the backends here are fil" in check_models(repository)[0].problem


def test_tritonclient_asks_models_of_such_a_backend(repository, backends, tmp_path, monkeypatch):
    import tritonclient.grpc
    import tritonclient.http

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    write_scaled(repository, "doubled", 2, 'backend: "scaled" instance_group { kind: KIND_GPU gpus: [ 0 ] }')
    ports = ["--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"]
    options = ["--backend-directory", str(backends), "--gpu-instances-on-cpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "trilith", "serve", str(repository), *ports, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watch = threading.Timer(40, process.kill)
    watch.start()
    said = []
    try:
        for line in process.stdout:
            said.append(line)
            if "ready: " in line:
                break
        found = re.search(r"http://(\S*:\d+).* gRPC (\S*:\d+)", said[-1])
        assert found, "".join(said)
        for module, address in zip((tritonclient.http, tritonclient.grpc), found.groups(), strict=True):
            with module.InferenceServerClient(address) as client:
                x = module.InferInput("x", [1, 2], "FP32")
                x.set_data_from_numpy(np.array([[1, 2]], np.float32))
                assert client.infer("doubled", [x]).as_numpy("y").tolist() == [[2, 4]]
        assert "instance_group[0].kind: KIND_GPU asks for a GPU; it runs on a CPU" in "".join(said)
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        status = process.wait()
        watch.cancel()
        process.stdout.close()
    assert status == 0, "".join(said)

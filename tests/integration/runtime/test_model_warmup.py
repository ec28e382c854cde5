"""What is run before a model serves."""

import struct

import numpy as np
import pytest

from trilith.core.request import InferRequest
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import SetupError
from trilith.runtime import Runtime, RuntimeConfig
from trilith.testing.backends import EchoBackend, kind_of


class Seen(EchoBackend):
    """Keeps the inputs of each run; fails when a value is negative."""

    def __init__(self, inputs):
        super().__init__(inputs=inputs)
        self.seen = []

    def before_answer(self, batch):
        self.seen.append({name: array.copy() for name, array in batch.inputs.items()})
        if any(array.dtype.kind == "f" and (array < 0).any() for array in batch.inputs.values()):
            raise RuntimeError("negative")


INPUTS = tuple(
    TensorSpec(name=str(datatype), datatype=datatype, shape=(-1, 2))
    for datatype in (DataType.FP32, DataType.BYTES, DataType.INT8, DataType.BOOL, DataType.FP16, DataType.BF16)
)


@pytest.fixture
def made():
    return []


@pytest.fixture
def serve(repository, made):
    def serve_it(config, inputs=INPUTS, files=()):
        (repository / "m" / "1").mkdir(parents=True, exist_ok=True)
        (repository / "m" / "warmup").mkdir(exist_ok=True)
        (repository / "m" / "config.pbtxt").write_text(f'backend: "seen" max_batch_size: 4 {config}')
        for name, content in files:
            (repository / "m" / "warmup" / name).write_bytes(content)

        def create(_):
            made.append(Seen(inputs))
            return made[-1]

        return Runtime(repository, config=RuntimeConfig(backends={"seen": kind_of(create)}))

    return serve_it


def tensor(name, how, dims="2"):
    word = "STRING" if name == "BYTES" else name
    return f'inputs {{ key: "{name}" value {{ data_type: TYPE_{word} dims: [ {dims} ] {how} }} }}'


def test_zeros_and_random_values_of_every_kind(serve, run, made):
    zero = " ".join(tensor(str(spec.name), "zero_data: true") for spec in INPUTS)
    random = " ".join(tensor(str(spec.name), "random_data: true") for spec in INPUTS)
    runtime = serve(
        f'model_warmup {{ name: "zero" batch_size: 3 {zero} }} model_warmup {{ name: "random" count: 2 {random} }}'
    )

    async def main():
        async with runtime:
            assert runtime.ready, runtime.models()
            (backend,) = made
            assert backend.executed == [3, 1, 1]
            assert all(array.shape == (3, 2) for array in backend.seen[0].values())
            assert not any(np.any(array.astype(bool)) for array in backend.seen[0].values())
            assert backend.seen[1]["FP32"].any()
            assert runtime.statistics("m")[0].inference_count == 0
            samples = runtime.model("m").config_proto().model_warmup
            assert [(sample.name, sample.batch_size, sample.count) for sample in samples] == [
                ("zero", 3, 1),
                ("random", 1, 2),
            ]

    run(main())


def test_values_of_a_file(serve, run, made):
    inputs = INPUTS[:2]
    text = b"".join(struct.pack("<I", len(word)) + word for word in (b"one", b""))
    runtime = serve(
        f"""model_warmup {{ name: "file" batch_size: 2 {tensor("FP32", 'input_data_file: "floats"')}
        {tensor("BYTES", 'input_data_file: "text"')} }}""",
        inputs,
        [("floats", struct.pack("<2f", 1.5, 2.5)), ("text", text)],
    )

    async def main():
        async with runtime:
            assert made[0].seen[0]["FP32"].tolist() == [[1.5, 2.5]] * 2
            assert made[0].seen[0]["BYTES"].tolist() == [[b"one", b""]] * 2

    run(main())


def test_a_model_is_warm_before_it_takes_over_and_a_sample_that_fails_changes_nothing(serve, repository, run, made):
    values = tensor("FP32", 'input_data_file: "x"')
    runtime = serve(f'model_warmup {{ name: "w" {values} }}', INPUTS[:1], [("x", struct.pack("<2f", 1, 1))])

    async def main():
        async with runtime:
            (repository / "m" / "warmup" / "x").write_bytes(struct.pack("<2f", -1, 1))
            with pytest.raises(SetupError, match="model 'm': failed to run warmup sample 'w': RuntimeError: negative"):
                await runtime.load("m")
            await runtime.infer(InferRequest(model="m", inputs={"FP32": np.ones((1, 2), np.float32)}))
            assert [len(backend.seen) for backend in made] == [2, 1]
            assert [backend.closed for backend in made] == [0, 1]

    run(main())


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        (tensor("FP32", "zero_data: true", "3"), r"input 'FP32' must be FP32 \[-1, 2\], got FP32 \[1, 3\]"),
        (tensor("INT8", "zero_data: true"), "its inputs must be FP32; got INT8"),
        ("", "its inputs must be FP32; got none"),
        (tensor("FP32", 'input_data_file: "nope"'), "warmup/nope: cannot be read"),
        (tensor("FP32", 'input_data_file: "short"'), "warmup/short: must have 8 bytes, has 3"),
        ("batch_size: 5 " + tensor("FP32", "zero_data: true"), "batch_size must be <= 4, got 5"),
        (
            tensor("FP32", "zero_data: true", "-1"),
            r"model_warmup.inputs\['FP32'\].dims: must be an integer from 0 to \d+, got -1",
        ),
        (tensor("FP32", 'input_data_file: "../x"'), "must be the name of a file in the model's folder"),
        (tensor("FP32", ""), "needs data_type, dims, and one of zero_data, random_data and input_data_file"),
    ],
)
def test_samples_that_do_not_fit(serve, run, sample, says):
    runtime = serve(f'model_warmup {{ name: "w" {sample} }}', INPUTS[:1], [("short", b"abc")])

    async def main():
        async with runtime:
            with pytest.raises(SetupError, match=says):
                await runtime.load("m")

    run(main())

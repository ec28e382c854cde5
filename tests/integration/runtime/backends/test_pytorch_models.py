"""TorchScript and exported programs: names, datatypes, structures, threads."""

import threading

import numpy as np
import pytest
from backend_cases import need

from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import InvalidConfig, InvalidInput, ModelError, SetupError
from trilith.runtime import Batch, ModelFile, ModelSpec
from trilith.runtime.backends.pytorch import PytorchBackend
from trilith.runtime.spec import DeclaredTensor, SessionConfig

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def torch():
    need("torch", "pytorch")
    import torch

    return torch


def declared(*tensors):
    return tuple(DeclaredTensor(name=name, datatype=DataType(word), dims=dims) for name, word, dims in tensors)


def load(path, **fields):
    backend = PytorchBackend(
        ModelFile(model="m", version=1, path=path, spec=ModelSpec(name="m", backend="pytorch", **fields))
    )
    return backend, backend.load()


def run(backend, inputs, *outputs):
    rows = len(next(iter(inputs.values())))
    return backend.run(Batch(inputs=inputs, outputs=outputs, rows=rows, requests=[]))


@pytest.fixture
def two(torch, tmp_path):
    """TorchScript of `forward(left, right, scale=1.0)`, which gives the difference and the sum."""

    class Two(torch.nn.Module):
        def forward(self, left: torch.Tensor, right: torch.Tensor, scale: float = 1.0):
            return (left - right) * scale, left + right

    path = tmp_path / "m" / "1" / "model.pt"
    path.parent.mkdir(parents=True)
    torch.jit.script(Two()).save(str(path))
    return path


@pytest.mark.parametrize(
    "inputs",
    [("right", "left"), ("INPUT__1", "INPUT__0"), ("b", "a")],
    ids=["names of forward", "numbers", "order"],
)
def test_triton_s_conventions_of_names(two, inputs):
    spec = {
        "inputs": declared(*((name, "FP32", (2,)) for name in inputs)),
        "outputs": declared(("OUTPUT__1", "FP32", (2,)), ("OUTPUT__0", "FP32", (2,))),
        "max_batch_size": 4,
    }
    backend, _ = load(two, **spec)
    one, other = np.full((1, 2), 5, np.float32), np.full((1, 2), 3, np.float32)
    total, difference = run(backend, {inputs[0]: one, inputs[1]: other}, "OUTPUT__1", "OUTPUT__0")
    assert total.tolist() == [[8, 8]]
    # By order the first of the configuration is the first argument; by the other two `one` is `right`.
    assert difference.tolist() == ([[2, 2]] if inputs == ("b", "a") else [[-2, -2]])


def test_names_that_mean_nothing(two):
    outputs = declared(("OUTPUT__0", "FP32", (2,)))
    for inputs, says in (
        ((("INPUT__0", "FP32", (2,)), ("INPUT__7", "FP32", (2,))), "unexpected input 'INPUT__7'"),
        ((("INPUT__0", "FP32", (2,)), ("other", "FP32", (2,))), "unexpected input 'other'"),
        ((("a__0", "FP32", (2,)), ("b__0", "FP32", (2,))), "two names mean the same one"),
        ((("left", "FP32", (2,)),), "the model needs 'right' too"),
    ):
        with pytest.raises(SetupError, match=says):
            load(two, inputs=declared(*inputs), outputs=outputs, max_batch_size=4)
    # TorchScript tells how many outputs there are when it has run, so this one is found then.
    inputs = declared(("left", "FP32", (2,)), ("right", "FP32", (2,)))
    backend, _ = load(two, inputs=inputs, outputs=declared(("OUTPUT__5", "FP32", (2,))), max_batch_size=4)
    x = np.zeros((1, 2), np.float32)
    with pytest.raises(InvalidConfig, match="unexpected output 'OUTPUT__5'"):
        run(backend, {"left": x, "right": x}, "OUTPUT__5")


def test_what_torchscript_does_not_say_must_be_declared_and_the_error_shows_how(two, tmp_path):
    with pytest.raises(SetupError) as caught:
        load(two)
    assert "inputs:\n  - {name: left, datatype: FP32, dims: [4]}\n  - {name: right," in caught.value.message
    assert "OUTPUT__1" in caught.value.message
    assert "scale" not in caught.value.message
    from trilith.runtime.model_yaml import load_model_yaml

    copied = tmp_path / "model.yaml"
    copied.write_text(caught.value.message.partition(":\n")[2])
    spec = load_model_yaml(copied, "m")
    load(two, inputs=spec.inputs, outputs=spec.outputs, max_batch_size=spec.max_batch_size)

    (two.parent.parent / "config.pbtxt").write_text("")
    with pytest.raises(SetupError) as caught:
        load(two)
    from trilith.runtime.model_pbtxt import parse_model_pbtxt

    spec = parse_model_pbtxt(caught.value.message.partition(":\n")[2] + '\nbackend: "pytorch"', "m", source="x")
    load(two, inputs=spec.inputs, outputs=spec.outputs, max_batch_size=spec.max_batch_size)


DTYPES = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP64"]


@pytest.mark.parametrize("word", DTYPES)
def test_every_datatype_crosses_unchanged(torch, tmp_path, word):
    class Flip(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x.reshape(-1, 2), x.reshape(-1, 1, 2)

    torch.jit.script(Flip()).save(str(tmp_path / "model.pt"))
    spec = {
        "inputs": declared(("x", word, (2,))),
        "outputs": declared(("OUTPUT__0", word, (2,)), ("OUTPUT__1", word, (1, 2))),
        "max_batch_size": 4,
    }
    backend, _ = load(tmp_path / "model.pt", **spec)
    kinds = {"BOOL": np.bool_, "FP16": np.float16, "FP64": np.float64, "BF16": np.uint16}
    x = np.array([[1, 0], [77, 3]]).astype(kinds.get(word, getattr(np, word.lower(), None)))
    x.flags.writeable = False
    (y,) = run(backend, {"x": x}, "OUTPUT__0")
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_bf16_is_computed_as_bf16(torch, tmp_path):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x * 2

    program = torch.export.export(Twice(), (torch.ones(2, 3, dtype=torch.bfloat16),))
    with (tmp_path / "model.pt2").open("wb") as opened:
        torch.export.save(program, opened)
    backend, signature = load(tmp_path / "model.pt2")
    assert signature.inputs == (TensorSpec(name="x", datatype=DataType.BF16, shape=(2, 3)),)
    assert signature.outputs == (TensorSpec(name="OUTPUT__0", datatype=DataType.BF16, shape=(2, 3)),)
    bits = np.full((2, 3), 0x3FC0, np.uint16)  # 1.5
    (y,) = run(backend, {"x": bits}, "OUTPUT__0")
    assert (y == 0x4040).all()  # 3.0


def test_text_is_a_list_of_texts(torch, tmp_path):
    class Shout(torch.nn.Module):
        def forward(self, words: list[str]) -> list[str]:
            return [word + "!" for word in words]

    torch.jit.script(Shout()).save(str(tmp_path / "model.pt"))
    spec = {
        "inputs": declared(("words", "BYTES", (-1,))),
        "outputs": declared(("OUTPUT__0", "BYTES", (-1,))),
        "max_batch_size": 0,
    }
    backend, _ = load(tmp_path / "model.pt", **spec)
    (loud,) = run(backend, {"words": np.array([b"a", "é".encode()], object)}, "OUTPUT__0")
    assert loud.tolist() == [b"a!", "é!".encode()]
    with pytest.raises(InvalidInput, match="UTF-8"):
        run(backend, {"words": np.array([b"\xff"], object)}, "OUTPUT__0")


def test_mappings_in_and_out(torch, tmp_path):
    class Named(torch.nn.Module):
        def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"more": batch["a"] + batch["b"], "less": batch["a"] - batch["b"]}

    torch.jit.script(Named()).save(str(tmp_path / "model.pt"))
    tensors = {
        "inputs": declared(("b", "FP32", (1,)), ("a", "FP32", (1,))),
        "outputs": declared(("less", "FP32", (1,)), ("more", "FP32", (1,))),
    }
    backend, _ = load(tmp_path / "model.pt", max_batch_size=4, **tensors)
    values = {"a": np.array([[5.0]], np.float32), "b": np.array([[3.0]], np.float32)}
    assert [array.item() for array in run(backend, values, "more", "less")] == [8.0, 2.0]


def test_an_exported_program_keeps_its_structure_and_may_be_renamed(torch, tmp_path):
    class Nested(torch.nn.Module):
        def forward(self, pair, scale):
            return [pair["x"] * scale, (pair["y"] * scale, pair["x"])]

    example = ({"x": torch.ones(2, 3), "y": torch.ones(2, 1)}, torch.ones(1))
    rows = torch.export.Dim("rows")
    shapes = {"pair": {"x": {0: rows}, "y": {0: rows}}, "scale": None}
    with (tmp_path / "model.pt2").open("wb") as opened:
        torch.export.save(torch.export.export(Nested(), example, dynamic_shapes=shapes), opened)
    backend, signature = load(tmp_path / "model.pt2")
    assert [(spec.name, spec.shape) for spec in signature.inputs] == [
        ("pair_x", (-1, 3)),
        ("pair_y", (-1, 1)),
        ("scale", (1,)),
    ]
    assert [spec.name for spec in signature.outputs] == ["OUTPUT__0", "OUTPUT__1", "OUTPUT__2"]
    backend, signature = load(
        tmp_path / "model.pt2",
        inputs=(DeclaredTensor(name="INPUT__2"), DeclaredTensor(name="INPUT__0"), DeclaredTensor(name="INPUT__1")),
        outputs=(DeclaredTensor(name="OUTPUT__1"),),
    )
    assert [spec.name for spec in signature.inputs] == ["INPUT__0", "INPUT__1", "INPUT__2"]
    values = {"INPUT__0": np.ones((1, 3)), "INPUT__1": np.full((1, 1), 2), "INPUT__2": np.full(1, 10)}
    (y,) = run(backend, {name: array.astype(np.float32) for name, array in values.items()}, "OUTPUT__1")
    assert y.tolist() == [[20.0]]


def test_a_model_that_writes_to_its_input_does_not_write_to_the_request(torch, tmp_path):
    class Rude(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            x += 1
            return x

    torch.jit.script(Rude()).save(str(tmp_path / "model.pt"))
    tensors = {"inputs": declared(("x", "FP32", (2,))), "outputs": declared(("OUTPUT__0", "FP32", (2,)))}
    backend, _ = load(tmp_path / "model.pt", max_batch_size=4, **tensors)
    x = np.zeros((1, 2), np.float32)
    assert run(backend, {"x": x}, "OUTPUT__0")[0].tolist() == [[1.0, 1.0]]
    assert x.tolist() == [[0.0, 0.0]]


def test_an_output_of_another_datatype_than_declared_is_told(torch, tmp_path):
    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x.half()

    torch.jit.script(Half()).save(str(tmp_path / "model.pt"))
    tensors = {"inputs": declared(("x", "FP32", (2,))), "outputs": declared(("OUTPUT__0", "FP32", (2,)))}
    backend, _ = load(tmp_path / "model.pt", max_batch_size=4, **tensors)
    with pytest.raises(ModelError, match=r"'OUTPUT__0' of the model is torch.float16; the configuration says FP32"):
        run(backend, {"x": np.zeros((1, 2), np.float32)}, "OUTPUT__0")


def test_other_files_of_pytorch_are_told_apart(torch, tmp_path):
    torch.save({"weight": torch.ones(2)}, tmp_path / "model.pt")
    with pytest.raises(SetupError, match="weights without their model"):
        load(tmp_path / "model.pt")

    class Inner(torch.nn.Module):
        def forward(self, x):
            return x + 1, 3

    with (tmp_path / "model.pt2").open("wb") as opened:
        torch.export.save(torch.export.export(Inner(), (torch.ones(2),)), opened)
    with pytest.raises(SetupError, match="output 'OUTPUT__1'"):
        load(tmp_path / "model.pt2")


def test_threads_are_those_of_the_instance(torch, two):
    tensors = {
        "inputs": declared(("left", "FP32", (2,)), ("right", "FP32", (2,))),
        "outputs": declared(("OUTPUT__0", "FP32", (2,))),
        "max_batch_size": 4,
    }
    seen = []
    for fields in (
        {"session": SessionConfig(intra_op_threads=3)},
        {"parameters": {"INTRA_OP_THREAD_COUNT": "2", "DISABLE_OPTIMIZED_EXECUTION": "true", "INFERENCE_MODE": "0"}},
    ):
        backend, _ = load(two, **tensors, **fields)

        def instance(backend=backend):
            backend.enter_thread()
            x = np.ones((1, 2), np.float32)
            run(backend, {"left": x, "right": x}, "OUTPUT__0")
            seen.append(torch.get_num_threads())

        thread = threading.Thread(target=instance)
        thread.start()
        thread.join()
    assert seen == [3, 2]
    assert not load(two, **tensors, parameters={"ENABLE_WEIGHT_SHARING": "false"})[0].concurrent
    with pytest.raises(InvalidConfig, match="INTRA_OP_THREAD_COUNT: must be an integer"):
        load(two, **tensors, parameters={"INTRA_OP_THREAD_COUNT": "many"})

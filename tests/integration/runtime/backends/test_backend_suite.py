"""Every backend, held to the same: each check runs for each kind of model of `backend_cases`."""

import asyncio
import gc
import importlib
from dataclasses import replace

import numpy as np
import pytest
import uvloop
from backend_cases import CASES, needs
from backend_models import table

from trilith.core.tensor import NUMPY_OF, TensorSpec
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime import Batch, InferRequest, ModelFile, ModelSpec, Runtime
from trilith.runtime.backends import builtin_backends
from trilith.testing.backend_contract import BACKEND_CHECKS

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.:DeprecationWarning")  # it is still what people have


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    needs(request.param)
    return request.param


@pytest.fixture
def written(case, tmp_path):
    """The model on disk, in a repository of its own, and what runs it directly."""
    folder = tmp_path / "models" / "m" / "1"
    folder.mkdir(parents=True)
    direct = case.write(folder / case.filename)
    configure(folder.parent, case)
    return folder / case.filename, direct


def configure(folder, case, extra=""):
    if case.yaml or extra:
        (folder / "model.yaml").write_text(f"{case.yaml}\n{extra}\n")


def spec_of(case, **fields):
    return ModelSpec(name="m", backend=case.backend, **{**case.declares, **fields})


def make(case, path, **fields):
    file = ModelFile(model="m", version=1, path=path, spec=spec_of(case, **fields))
    return builtin_backends()[case.backend].create(file)


def run(coroutine):
    async def limited():
        async with asyncio.timeout(30):
            return await coroutine

    return uvloop.run(limited())


def ask(case, rows, seed=0, outputs=()):
    x = table(rows, seed=seed, dtype=NUMPY_OF[case.datatype])
    return x, InferRequest(model="m", inputs={case.input: x}, outputs=outputs)


def same(answer, expected):
    assert list(answer.outputs) == list(expected)
    for name, array in answer.outputs.items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
def test_the_contract(case, written, check):
    check(lambda: make(case, written[0]))


def test_it_is_found_by_its_file_and_says_its_signature(case, written):
    async def main():
        async with Runtime(written[0].parents[2]) as runtime:
            handle = runtime.model("m")
            assert (handle.backend, handle.reason) == (case.backend, "")
            assert handle.inputs == (TensorSpec(name=case.input, datatype=case.datatype, shape=(-1, 4)),)
            assert handle.outputs == tuple(
                TensorSpec(name=name, datatype=datatype, shape=(-1, width)) for name, datatype, width in case.outputs
            )
            assert handle.max_batch_size == case.declares.get("max_batch_size", 4)

    run(main())


def test_batches_of_every_size_equal_the_library(case, written):
    async def main():
        async with Runtime(written[0].parents[2]) as runtime:
            for rows in range(1, runtime.model("m").max_batch_size + 1):
                x, request = ask(case, rows, seed=rows)
                same(await runtime.infer(request), written[1](x))
            asked = [ask(case, 1, seed=seed) for seed in range(8)]
            answers = await asyncio.gather(*(runtime.infer(request) for _, request in asked))
            for answer, (x, _) in zip(answers, asked, strict=True):
                same(answer, written[1](x))

    run(main())


@pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
def test_two_instances(case, written, share):
    configure(written[0].parents[1], case, f"instances: {{count: 2, share_session: {str(share).lower()}}}")

    async def main():
        async with Runtime(written[0].parents[2]) as runtime:
            asked = [ask(case, 1 + seed % 3, seed=seed) for seed in range(12)]
            answers = await asyncio.gather(*(runtime.infer(request) for _, request in asked))
            for answer, (x, _) in zip(answers, asked, strict=True):
                same(answer, written[1](x))

    run(main())


def test_without_a_batch_dimension_requests_run_alone(case, written):
    path = written[0].parents[1]
    off = case.yaml.replace("max_batch_size: 8", "").replace("dims: [", "dims: [-1, ")
    (path / "model.yaml").write_text(f"{off}\nmax_batch_size: 0\n")

    async def main():
        async with Runtime(path.parent) as runtime:
            assert (runtime.model("m").max_batch_size, runtime.model("m").reason) == (0, "")
            asked = [ask(case, rows, seed=rows) for rows in (1, 3, 5)]
            answers = await asyncio.gather(*(runtime.infer(request) for _, request in asked))
            for answer, (x, _) in zip(answers, asked, strict=True):
                same(answer, written[1](x))
            assert runtime.statistics("m")[0].execution_count == 3

    run(main())


@pytest.fixture
def only_new_objects():
    """Makes the collector forget what is there, so that what is made from now on is found quickly."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_closing_frees_the_model(case, written, only_new_objects):
    module, name = case.holds
    kind = getattr(importlib.import_module(module), name)

    def held():
        gc.collect()
        return sum(issubclass(type(thing), kind) for thing in gc.get_objects())

    assert held() == 0
    backend = make(case, written[0])
    signature = backend.load()
    backend.enter_thread()
    x = table(1, dtype=NUMPY_OF[case.datatype])
    outputs = tuple(spec.name for spec in signature.outputs)
    backend.run(Batch(inputs={case.input: x}, outputs=outputs, rows=1, requests=[]))
    assert held() > 0
    backend.close()
    assert held() == 0


def damaged(case, whole):
    """Files that are not what they should be, by what is wrong with them."""
    return {
        "empty": b"",
        "cut at a tenth": whole[: len(whole) // 10],
        "cut in the middle": whole[: len(whole) // 2],
        "cut near the end": whole[: len(whole) * 7 // 8],
        "text": b"hello, I am no model\n" * 40,
        "zeros": bytes(2048),
        "archive": b"PK\x05\x06" + bytes(18),
    }


def test_a_wrong_file_is_one_clear_error(case, written):
    path = written[0]
    whole = path.read_bytes()
    for what, content in damaged(case, whole).items():
        path.write_bytes(content)
        backend = make(case, path)
        with pytest.raises(SetupError) as caught:
            backend.load()
        backend.close()
        assert str(path) in caught.value.message, what
        assert "Stack trace" not in caught.value.message
        assert len(caught.value.message) < 700, what
    path.unlink()
    with pytest.raises(SetupError, match="there is no model file"):
        make(case, path).load()


def test_a_server_with_a_wrong_file_serves_the_others(case, written, tmp_path):
    other = tmp_path / "models" / "broken" / "1"
    other.mkdir(parents=True)
    whole = written[0].read_bytes()
    (other / case.filename).write_bytes(whole[: len(whole) // 2])
    configure(other.parent, case)

    async def main():
        async with Runtime(tmp_path / "models") as runtime:
            assert str(other) in runtime.model("broken").reason
            x, request = ask(case, 2)
            same(await runtime.infer(request), written[1](x))

    run(main())


@pytest.mark.parametrize("case", CASES[1:], ids=lambda case: case.name, indirect=True)  # not those of ONNX Runtime
def test_what_the_backend_does_not_know_is_for_clients_and_a_session_key_refused_by_name(case, written):
    parameters = {**case.declares.get("parameters", {}), "owner": "me"}
    backend = make(case, written[0], parameters=parameters)
    backend.load()
    backend.close()
    spec = spec_of(case)
    session = replace(spec.session, memory_pattern=False)
    with pytest.raises(InvalidConfig, match=f"session.memory_pattern: means nothing to the {case.backend} backend"):
        make(case, written[0], session=session).load()

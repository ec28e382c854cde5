"""Loads that are tried again, configurations of another name, and what readiness asks for."""

import pytest
from test_model_control import Files, write

from trilith.core.load_options import ControlMode
from trilith.errors import InvalidConfig, SetupError
from trilith.runtime import Runtime, RuntimeConfig
from trilith.testing.backends import kind_of


class Flaky(Files):
    """Cannot be loaded so often before it can."""

    def __init__(self, file, made, failures):
        super().__init__(file, made)
        self._failures = failures

    def load(self):
        if self._failures:
            raise self._failures.pop()
        return super().load()


@pytest.fixture
def made():
    return []


@pytest.fixture
def failures():
    return []


@pytest.fixture
def serve(made, failures):
    def serve_it(*roots, **config):
        kind = kind_of(lambda file: Flaky(file, made, failures), filename="model.twin")
        return Runtime(*roots, config=RuntimeConfig(backends={"files": kind}, **config))

    return serve_it


@pytest.mark.parametrize(("retries", "ready"), [(0, False), (1, False), (2, True)])
def test_a_load_that_fails_is_tried_again(repository, serve, run, made, failures, caplog, retries, ready):
    write(repository, "a")
    failures.extend([OSError("the disk is away"), OSError("the disk is away")])

    async def main():
        async with serve(repository, model_load_retry_count=retries) as runtime:
            assert runtime.ready is ready
            assert runtime.model("a").ready is ready

    run(main())
    assert len(made) == retries + 1
    assert caplog.text.count("the disk is away; it is tried again") == min(retries, 2)
    assert all(model.closed == 1 for model in made)


def test_a_wrong_configuration_is_not_tried_again(repository, serve, run, made):
    write(repository, "a", yaml="inputs: [{name: nope, datatype: FP32, dims: [1]}]")

    async def main():
        async with serve(repository, model_load_retry_count=5) as runtime:
            assert "nope" in runtime.model("a").reason

    run(main())
    assert len(made) == 1


def test_a_configuration_of_another_name(repository, serve, run):
    for name in ("a", "b", "c"):
        write(repository, name, yaml="max_batch_size: 2")
    for name, file, text in [
        ("a", "small.pbtxt", "max_batch_size: 7"),
        ("b", "small.yaml", "max_batch_size: 8"),
        ("c", "large.pbtxt", "max_batch_size: 9"),
    ]:
        (repository / name / "configs").mkdir()
        (repository / name / "configs" / file).write_text(text)

    async def main():
        async with serve(repository, config_name="small", mode=ControlMode.EXPLICIT) as runtime:
            for name in ("a", "b", "c"):
                await runtime.load(name)
            assert [runtime.model(name).max_batch_size for name in ("a", "b", "c")] == [7, 8, 2]
            handle = runtime.model("a")
            (repository / "a" / "configs" / "small.pbtxt").write_text("max_batch_size: 3")
            await runtime.load("a")
            assert runtime.model("a").max_batch_size == 3
            assert handle.max_batch_size == 7
            await runtime.repository.load("a", {"config": '{"instance_group": [{"count": 2}]}'})
            assert (runtime.model("a").max_batch_size, runtime.model("a").config.instances.count) == (3, 2)
            (repository / "a" / "configs" / "small.yaml").write_text("max_batch_size: 4")
            with pytest.raises(SetupError, match=r"configs: holds small.pbtxt and small.yaml; keep one of them"):
                await runtime.load("a")

    run(main())


@pytest.mark.parametrize("strict", [True, False])
def test_readiness(repository, serve, run, strict):
    write(repository, "a")
    write(repository, "b", content="broken")

    async def main():
        runtime = serve(repository, strict_readiness=strict)
        assert not runtime.ready
        async with runtime:
            assert runtime.ready is not strict
        assert not runtime.ready

    run(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"model_load_retry_count": -1},
        {"config_name": "../x"},
        {"config_name": ".x"},
        {"load_threads": 0},
        {"load_timeout_s": 0.0},
    ],
)
def test_what_no_runtime_can_be(wrong):
    with pytest.raises(InvalidConfig, match=next(iter(wrong))):
        RuntimeConfig(**wrong)

"""Texts of 20 MB that a model brings: cut at a bound, and every request has its answer."""

import logging

import pytest
from python_models import ask, echo_with, write_model

from trilith.errors import ModelError, NotFound, SetupError
from trilith.runtime import Runtime

LONG = """
mood = int(x[0, 0])
long = "é" * 20_000_000
if mood == -1:
    raise Exception(long)
if mood == -2:
    pb_utils.Logger.log_error(long)
    print(long, file=sys.stderr)
    sys.stderr.flush()
if mood == -3:
    for number in range(100_000):
        pb_utils.Logger.log_verbose("a line " * 20)
if mood == -4:
    family = pb_utils.MetricFamily(long, long)
    family.Metric({long: long}).increment(1)
    pb_utils.MetricFamily("good", long).Metric({"label": long}).increment(1)
if mood == -5:
    raise type("E" * 10_000_000, (Exception,), {})("short")
if mood == -6:
    thread = threading.Thread(target=lambda: pb_utils.Logger.log_error(long))
    thread.start()
    thread.join()
return x
"""
ANSWER = """
mood = int(pb_utils.get_input_tensor_by_name(request, "x").as_numpy()[0, 0])
long = "é" * 20_000_000
if mood == -10:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(long, pb_utils.TritonError.NOT_FOUND))
if mood == -11:
    return pb_utils.InferenceResponse([pb_utils.Tensor(long, np.zeros((1, 1), np.float32))])
if mood == -12:
    return pb_utils.InferenceResponse([pb_utils.Tensor("y", np.zeros((1, 1), np.float32))], parameters={"p": long})
x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
return pb_utils.InferenceResponse([pb_utils.Tensor("y", self.run(x, request))])
"""


def test_every_long_text_is_cut_and_every_request_answered(repository, run, caplog):
    write_model(repository, "wordy", echo_with(run=LONG, answer=ANSWER))

    async def main():
        async with Runtime(repository) as runtime:
            for value, error, text in (
                (-1, ModelError, r"message: Exception: é{10000}é*\.\.\. \(\d+ characters more are left out\)\n\nAt:\n"),
                (-5, ModelError, r"EEE\.\.\. \(\d+ characters more are left out\)"),
                (-10, NotFound, r"^éé+\.\.\. \(19983616 characters more are left out\)$"),
                (-11, ModelError, r"its response lacks|characters more are left out"),
                (-12, ModelError, r"expected at most 1048576 characters in the parameters of a response, got 20000001"),
            ):
                with pytest.raises(error, match=text) as raised:
                    await runtime.infer(ask("wordy", value))
                assert len(str(raised.value)) < 50_000
            for value in (-2, -3, -4, -6, 1):
                assert (await runtime.infer(ask("wordy", value))).outputs["y"].tolist() == [[value]]
            assert dict(runtime.statistics()[0].restarts) == {}
            [good] = runtime.model_metrics()
            assert good.name == "good"
            assert len(good.help) < 2000
            assert len(good.samples[0][0][0]) < 2000

    with caplog.at_level(logging.DEBUG, "trilith.model.wordy"):
        run(main())
    assert max(len(record.getMessage()) for record in caplog.records) < 20_000
    assert sum("a line a line" in record.getMessage() for record in caplog.records) == 100_000


@pytest.mark.parametrize(
    "methods",
    [
        {"initialize": 'raise Exception("x" * 20_000_000)'},
        {"initialize": 'print("x" * 20_000_000, file=sys.stderr); sys.stderr.flush(); os._exit(3)'},
    ],
)
def test_a_load_that_fails_with_a_long_text_says_the_beginning(repository, run, methods):
    write_model(repository, "wordy", echo_with(**methods))

    async def main():
        async with Runtime(repository) as runtime:
            with pytest.raises(SetupError, match="characters more are left out") as raised:
                await runtime.load("wordy")
            assert len(str(raised.value)) < 100_000

    run(main())

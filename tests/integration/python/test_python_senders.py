"""Models that answer by a response sender: from another thread, after `execute` has returned, some requests only."""

import asyncio

import pytest
from python_models import HEAD, ask, write_model
from waiting import until

from trilith.errors import ModelError, NotFound
from trilith.runtime import Runtime

# 1: from a thread, later; 2: before execute returns; 3: returned as usual; 4: an error, later; 5: returned and sent;
# 6: None, and never asked for a sender; 7: sent twice; 8: when its caller goes away; 9: never, its thread raises;
# 10: never, its sender is dropped.
SENDING = (
    HEAD
    + """
import queue

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        return config

    def initialize(self, args):
        self.later = queue.Queue()
        threading.Thread(target=self.send_later, daemon=True).start()

    def send_later(self):
        while True:
            sender, mood, response = self.later.get()
            if mood == 8:
                while not sender.is_cancelled():
                    time.sleep(0.002)
            sender.send(response)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def fail(self, sender):
        raise ValueError("a bug in a thread of the model")

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            response = pb_utils.InferenceResponse([pb_utils.Tensor("y", x * 10)])
            mood = int(x[0, 0])
            responses.append(response if mood in (3, 5) else None)
            if mood == 4:
                response = pb_utils.InferenceResponse(
                    error=pb_utils.TritonError("not here", pb_utils.TritonError.NOT_FOUND)
                )
            if mood in (1, 4, 8):
                self.later.put((request.get_response_sender(), mood, response))
            if mood in (2, 5, 7):
                request.get_response_sender().send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            if mood == 9:
                threading.Thread(target=self.fail, args=(request.get_response_sender(),)).start()
            if mood == 10:
                request.get_response_sender()
            if mood == 7:
                request.get_response_sender().send(response)
        return None if all(response is None for response in responses) and mood != 6 else responses
"""
)


def test_requests_are_answered_from_wherever_their_model_answers(repository, run):
    write_model(repository, "sending", SENDING)

    async def main():
        async with Runtime(repository) as runtime:
            for values in ((1,), (2,), (1, 2, 3, 1), (3, 1), (1, 1, 2), (3,)):
                answers = await asyncio.gather(*(runtime.infer(ask("sending", value)) for value in values))
                assert [answer.outputs["y"].tolist() for answer in answers] == [[[value * 10]] for value in values]
            found = await asyncio.gather(
                *(runtime.infer(ask("sending", value)) for value in (4, 1)), return_exceptions=True
            )
            assert isinstance(found[0], NotFound)
            assert str(found[0]) == "not here"
            assert found[1].outputs["y"].tolist() == [[10]]

    run(main())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "Non-decoupled model cannot send more than one response"),
        (6, "Expected an 'InferenceResponse' object in the execute function return list"),
        (7, "Unable to send response. Response sender has been closed"),
    ],
)
def test_what_is_sent_twice_or_never_is_one_clear_error(repository, run, value, words):
    write_model(repository, "sending", SENDING)

    async def main():
        async with Runtime(repository) as runtime:
            with pytest.raises(ModelError, match=words):
                await runtime.infer(ask("sending", value))
            assert (await runtime.infer(ask("sending", 1))).outputs["y"].tolist() == [[10]]

    run(main())


@pytest.mark.parametrize("value", [9, 10])
def test_a_sender_that_is_gone_unsent_fails_its_request_alone(repository, run, value):
    write_model(repository, "sending", SENDING)

    async def main():
        async with Runtime(repository) as runtime:
            found = await asyncio.gather(
                *(runtime.infer(ask("sending", each)) for each in (value, 1, value, 3)), return_exceptions=True
            )
            for error in found[::2]:
                assert isinstance(error, ModelError)
                assert "has let go of the request and of its sender" in str(error)
            assert [answer.outputs["y"].tolist() for answer in found[1::2]] == [[[10]], [[30]]]
            assert (await runtime.infer(ask("sending", 1))).outputs["y"].tolist() == [[10]]

    run(main())


def test_a_sender_sees_that_its_caller_went_away(repository, run):
    write_model(repository, "sending", SENDING)

    async def main():
        async with Runtime(repository) as runtime:
            waiting = asyncio.ensure_future(runtime.infer(ask("sending", 8)))
            await until(lambda: runtime.statistics()[0].running == 1)
            waiting.cancel()
            assert (await runtime.infer(ask("sending", 1))).outputs["y"].tolist() == [[10]]

    run(main())


def test_a_warm_up_waits_for_what_is_sent_later(repository, run):
    pbtxt = """
    backend: "python"
    model_warmup { name: "one" batch_size: 1 inputs { key: "x" value {
        data_type: TYPE_FP32 dims: [ 1 ] random_data: true } } }
    """
    source = SENDING.replace("mood = int(x[0, 0])", "mood = 1")
    write_model(repository, "sending", source, pbtxt=pbtxt)

    async def main():
        async with Runtime(repository) as runtime:
            assert runtime.ready, runtime.model("sending").reason
            assert (await runtime.infer(ask("sending", 3))).outputs["y"].tolist() == [[30]]

    run(main())

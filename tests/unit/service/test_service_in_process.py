"""`Ocr()` with no server: dependencies and batches in this process, from a loop and from threads."""

import asyncio
import inspect
import threading

import numpy as np
import pytest

import trilith
from trilith.errors import ServiceError, UnknownReference
from trilith.service import ServiceProxy, spec_of


@trilith.service
class Recognizer:
    built = 0

    def __init__(self) -> None:
        type(self).built += 1
        self.sizes: list[int] = []

    @trilith.api(batch=trilith.Batch(max_size=3))
    async def read(self, crops: list[np.ndarray]) -> list[str]:
        """Reads one crop."""
        self.sizes.append(len(crops))
        return [str(int(crop.sum())) for crop in crops]

    @trilith.api(batch=trilith.Batch(max_size=3))
    def read_in_thread(self, crops: list[np.ndarray]) -> list[str]:
        self.sizes.append(len(crops))
        return [f"{threading.current_thread() is threading.main_thread()}" for _ in crops]

    @trilith.api(batch=trilith.Batch(max_size=2))
    async def broken(self, xs: list[int]) -> list[int]:
        return xs[1:]

    @trilith.api(batch=trilith.Batch(max_size=4))
    async def picky(self, xs: list[int]) -> list[int]:
        return [ValueError("no") if x < 0 else x for x in xs]  # type: ignore[misc]

    @trilith.api
    async def seen(self) -> list[int]:
        return self.sizes


@trilith.service
async def shout(text: str) -> str:
    return text.upper()


@trilith.service
class Detector:
    recognizer = trilith.depends(Recognizer)

    @trilith.api
    def detect(self, image: np.ndarray) -> list[int]:
        return [threading.get_ident(), *image.shape]

    @trilith.api
    async def diamond(self) -> list[int]:
        return await self.recognizer.seen()


@trilith.service
class Ocr:
    detector = trilith.depends(Detector)
    recognizer = trilith.depends(Recognizer)
    shout = trilith.depends(shout)

    @trilith.api
    async def read(self, image: np.ndarray) -> list[str]:
        _, *shape = await self.detector.detect(image)
        texts = await asyncio.gather(*(self.recognizer.read(image + i) for i in range(5)))
        return [*texts, await self.shout(str(shape))]

    @trilith.api
    def read_in_thread(self, image: np.ndarray) -> list[str]:
        shape = self.detector.detect(image)[1:]
        return [self.recognizer.read(image), self.recognizer.read_in_thread(image), self.shout(f"{shape}x")]


@pytest.fixture(autouse=True)
def count():
    Recognizer.built = 0


def test_an_instance_made_by_hand_works_on_a_loop():
    async def main():
        ocr = Ocr()
        assert await ocr.read(np.zeros((2, 3), np.int64)) == ["0", "6", "12", "18", "24", "[2, 3]"]
        # Calls of one turn of the loop are joined, up to the batch's size; the same instance serves both dependants.
        assert await ocr.recognizer.seen() == [3, 2]
        assert await ocr.detector.diamond() == [3, 2]

    asyncio.run(main())
    assert Recognizer.built == 1


def test_a_batched_method_called_by_hand_takes_one_item():
    async def main():
        recognizer = Recognizer()
        assert await recognizer.read(np.ones(2, np.int64)) == "2"
        assert await Recognizer.read.batch(recognizer, [np.ones(1, np.int64)] * 2) == ["1", "1"]
        assert await recognizer.seen() == [1, 2]
        with pytest.raises(ServiceError, match="was given a batch of 1 and returned 0 results"):
            await recognizer.broken(xs=1)
        with pytest.raises(ValueError, match="no"):
            await recognizer.picky(-1)
        with pytest.raises(TypeError, match="missing a required argument"):
            await recognizer.picky()
        return recognizer

    recognizer = asyncio.run(main())
    assert recognizer.read_in_thread(np.ones(1)) == "True"
    assert inspect.iscoroutinefunction(recognizer.read)
    assert list(inspect.signature(recognizer.read).parameters) == ["crops"]
    assert recognizer.read.__doc__ == Recognizer.read.__doc__ == "Reads one crop."


def test_a_batched_function_called_by_hand_takes_one_item(call_once):
    @trilith.service(batch=trilith.Batch(max_size=2))
    async def length(words: list[str]) -> list[int]:
        return [len(word) for word in words]

    assert asyncio.run(length("abc")) == 3
    assert asyncio.run(length.batch(["a", "bc"])) == [1, 2]
    assert call_once(length, "length", b'{"words": "abcd"}').body == b"4"
    assert spec_of(length).name == "length"


def test_an_instance_made_by_hand_works_without_a_loop():
    assert Ocr().read_in_thread(np.ones((2, 2), np.int64)) == ["4", "True", "[2, 2]X"]


def test_a_synchronous_method_of_a_dependency_runs_in_a_thread():
    async def main():
        ocr = Ocr()
        identity, *_ = await ocr.detector.detect(np.zeros(1))
        assert identity != threading.get_ident()
        assert await asyncio.gather(*(ocr.recognizer.read_in_thread(np.zeros(1)) for _ in range(3))) == ["False"] * 3
        assert await ocr.recognizer.seen() == [3]

    asyncio.run(main())


def test_a_thread_beside_a_loop_may_call_too():
    async def main():
        return await asyncio.to_thread(Ocr().read_in_thread, np.ones((1, 1), np.int64))

    assert asyncio.run(main()) == ["1", "False", "[1, 1]X"]


def test_a_hosted_service_reaches_its_dependencies(call_once):
    assert call_once(Ocr, "read", b'{"image": [[1, 2]]}').body == b'["3","5","7","9","11","[1, 2]"]'
    assert call_once(Ocr, "read_in_thread", b'{"image": [[1, 2]]}').body == b'["3","False","[1, 2]X"]'


def test_two_instances_are_apart():
    async def main():
        first, second = Ocr(), Ocr()
        await first.recognizer.read(np.zeros(1))
        assert await second.recognizer.seen() == []

    asyncio.run(main())


def test_a_test_may_put_its_own_object_there():
    class Fake:
        async def detect(self, image):
            return [0, 9, 9]

    async def main():
        ocr = Ocr()
        ocr.detector = Fake()
        return (await ocr.read(np.zeros(1, np.int64)))[-1]

    assert asyncio.run(main()) == "[9, 9]"


def test_a_wrong_length_is_everyones_error():
    async def main():
        return await asyncio.gather(*(Ocr().recognizer.broken(x) for x in range(2)), return_exceptions=True)

    assert [type(result) for result in asyncio.run(main())] == [ServiceError, ServiceError]


def test_an_exception_in_the_list_is_one_callers():
    async def main():
        recognizer = Ocr().recognizer
        return await asyncio.gather(*(recognizer.picky(x) for x in (1, -1, 2)), return_exceptions=True)

    one, error, two = asyncio.run(main())
    assert (one, two) == (1, 2)
    assert isinstance(error, ValueError)


def test_a_caller_who_went_is_left_out_of_the_batch():
    async def main():
        ocr = Ocr()
        calls = [asyncio.ensure_future(ocr.recognizer.read(np.zeros(1))) for _ in range(3)]
        await asyncio.sleep(0)
        calls[0].cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return await ocr.recognizer.seen()

    assert asyncio.run(main()) == [2]


def test_a_batch_may_wait_for_more():
    @trilith.service
    class Patient:
        @trilith.api(batch=trilith.Batch(max_size=8, max_wait_ms=20))
        async def read(self, xs: list[int]) -> list[int]:
            return [len(xs)] * len(xs)

    @trilith.service
    class Root:
        patient = trilith.depends(Patient)

        @trilith.api
        async def run(self) -> int:
            return 1

    async def main():
        root = Root()
        first = asyncio.ensure_future(root.patient.read(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await asyncio.gather(first, root.patient.read(2))

    assert asyncio.run(main()) == [2, 2]


def test_a_proxy_has_the_public_methods_alone():
    ocr = Ocr()
    assert isinstance(ocr.detector, ServiceProxy)
    assert ocr.recognizer.read.__doc__ == "Reads one crop."
    with pytest.raises(AttributeError, match="service Detector has no public method 'sizes'; it has detect, diamond"):
        ocr.detector.sizes  # noqa: B018
    with pytest.raises(TypeError, match="Detector is called by a method: "):
        ocr.detector()


def test_the_class_attribute_is_the_declaration():
    assert Ocr.detector.spec is spec_of(Detector)  # type: ignore[attr-defined]


def test_a_model_that_is_nowhere_says_where_was_looked():
    @trilith.service
    class Uses:
        model = trilith.model("no-such-model")

        @trilith.api
        async def run(self) -> int:
            return 1

    with pytest.raises(UnknownReference, match=r"no model 'no-such-model'; looked in .*models"):
        Uses().model  # noqa: B018

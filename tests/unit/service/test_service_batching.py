"""Batches: one list for the method, single answers for the callers, and nobody pays for another's mistake."""

import asyncio

import pytest
from PIL import Image

import trilith
from trilith.errors import Cancelled, InvalidInput, QueueFull, ServiceError
from trilith.service.codecs import images


@trilith.service
class Batched:
    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.hold: asyncio.Event | None = None
        self.begun = asyncio.Event()
        self.cancelled = False

    def double(self, xs: list[int]) -> list[int]:
        self.sizes.append(len(xs))
        if any(x < 0 for x in xs):
            raise ValueError("negative")
        return [2 * x for x in xs]

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def asynchronous(self, xs: list[int]) -> list[int]:
        return self.double(xs)

    @trilith.api(batch=trilith.Batch(max_size=8))
    def synchronous(self, xs: list[int]) -> list[int]:
        return self.double(xs)

    @trilith.api(batch=trilith.Batch(max_size=8), idempotent=True)
    async def pure(self, xs: list[int]) -> list[int]:
        return self.double(xs)

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def two(self, xs: list[int], *, names: list[str]) -> list[str]:
        return [f"{name}{x}" for x, name in zip(xs, names, strict=True)]

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def one_fails(self, xs: list[int]) -> list[int]:
        return [QueueFull("full") if x == 0 else x for x in xs]  # type: ignore[misc]

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def too_few(self, xs: list[int]) -> list[int]:
        return xs[1:]

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def no_list(self, xs: list[int]) -> list[int]:
        return 5  # type: ignore[return-value]

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def wait(self, xs: list[int]) -> list[int]:
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return xs

    @trilith.api(batch=trilith.Batch(max_size=8))
    async def widths(self, pages: list[Image.Image]) -> list[int]:
        return [page.width for page in pages]

    @trilith.api
    async def seen(self) -> list[int]:
        return self.sizes


def body(x: object) -> bytes:
    return f'{{"xs": {x}}}'.encode()


def kinds(results: list[object]) -> list[object]:
    return [type(result) if isinstance(result, Exception) else result.body for result in results]  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["asynchronous", "synchronous", "pure"])
def test_calls_are_joined_and_answered_by_themselves(serve, method):
    async def scenario(hosted):
        results = await hosted.batch(method, [body(1), body(2), body(3)])
        assert kinds(results) == [b"2", b"4", b"6"]
        assert await hosted.body("seen") == b"[3]"

    serve(Batched, scenario)


def test_a_single_call_is_a_batch_of_one(call_once):
    assert call_once(Batched, "asynchronous", body(4)).body == b"8"


@pytest.mark.parametrize("method", ["asynchronous", "synchronous"])
def test_a_bad_item_fails_alone(serve, method):
    async def scenario(hosted):
        results = await hosted.batch(method, [body(1), body('"x"'), body(3), b"{"])
        assert kinds(results) == [b"2", InvalidInput, b"6", InvalidInput]
        assert await hosted.body("seen") == b"[2]"

    serve(Batched, scenario)


def test_a_batch_of_bad_items_alone_is_not_run(serve):
    async def scenario(hosted):
        assert kinds(await hosted.batch("asynchronous", [b"{", b"{"])) == [InvalidInput, InvalidInput]
        assert await hosted.body("seen") == b"[]"

    serve(Batched, scenario)


@pytest.mark.parametrize("method", ["asynchronous", "synchronous"])
def test_a_method_that_raises_fails_its_whole_batch_and_is_logged_once(serve, caplog, method):
    async def scenario(hosted):
        results = await hosted.batch(method, [body(1), body(-2), body(3)])
        assert kinds(results) == [ServiceError] * 3

    serve(Batched, scenario)
    assert len(caplog.records) == 1


def test_an_idempotent_method_is_tried_again_in_halves(serve, caplog):
    async def scenario(hosted):
        results = await hosted.batch("pure", [body(x) for x in (1, 2, -3, 4, 5)])
        assert kinds(results) == [b"2", b"4", ServiceError, b"8", b"10"]
        assert await hosted.body("seen") == b"[5,2,3,1,2]"

    serve(Batched, scenario)


def test_one_item_may_fail_by_the_methods_own_word(serve):
    async def scenario(hosted):
        assert kinds(await hosted.batch("one_fails", [body(1), body(0), body(2)])) == [b"1", QueueFull, b"2"]

    serve(Batched, scenario)


def test_columns_stay_aligned(serve):
    async def scenario(hosted):
        bodies = [f'{{"xs": {x}, "names": "{name}"}}'.encode() for x, name in ((1, "a"), (2, "b"))]
        assert kinds(await hosted.batch("two", bodies)) == [b'"a1"', b'"b2"']

    serve(Batched, scenario)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("too_few", "Batched.too_few was given a batch of 3 and returned 2 results; it must return one for each item"),
        ("no_list", "Batched.no_list is batched and must return a list, one result for each item; got int"),
    ],
)
def test_a_list_of_another_length_is_refused(serve, method, message):
    async def scenario(hosted):
        for result in await hosted.batch(method, [body(1), body(2), body(3)]):
            assert isinstance(result, ServiceError)
            assert result.message == message

    serve(Batched, scenario)


def test_images_in_batches(serve):
    async def scenario(hosted):
        files = [images.encode_image(Image.new("RGB", (width, 2)))[1] for width in (3, 400)]
        noise = images.encode_image(Image.effect_noise((500, 300), 100))[1]  # over 64 kB: decoded in a thread
        results = await hosted.batch("widths", [files[0], b"no image", files[1], noise], "image/png")
        assert kinds(results) == [b"3", InvalidInput, b"400", b"500"]

    serve(Batched, scenario)


def test_a_batch_is_cancelled_when_all_its_callers_are_gone(serve):
    async def scenario(hosted):
        pairs = [hosted.make("wait", body(x)) for x in (1, 2)]
        hosted.host.handle_batch([call for call, _ in pairs])
        instance = hosted.host.instance
        await instance.begun.wait()
        pairs[0][0].cancel()
        await asyncio.sleep(0)
        assert not instance.cancelled
        pairs[1][0].cancel()
        results = await asyncio.gather(*(future for _, future in pairs), return_exceptions=True)
        assert [type(result) for result in results] == [Cancelled, Cancelled]
        await hosted.idle()
        assert instance.cancelled

    serve(Batched, scenario)

"""The typed client against a real HTTP server that hands its requests to a host."""

import asyncio
import contextlib
import dataclasses
import enum
import inspect
import pathlib
import threading
from collections.abc import Iterator

import httpx
import msgspec
import numpy as np
import pytest
import uvloop
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel

import trilith
from trilith.core.context import Context
from trilith.core.timeline import Timeline
from trilith.errors import (
    DeadlineExceeded,
    InvalidConfig,
    InvalidInput,
    NoReadyReplica,
    QueueFull,
    ServiceError,
    TrilithError,
    Unsupported,
)
from trilith.net.http1 import HttpRequest, HttpServer
from trilith.service import InProcessResolver, ServiceCall, ServiceHost, describe, docs_html, openapi_document
from trilith.service.client import AsyncClient, Client
from trilith.service.names import is_client_name
from trilith.wire.calls import CallMeta, ResultMeta
from trilith.wire.http_status import error_body, http_status, retry_after


@dataclasses.dataclass
class Line:
    text: str
    score: float = 1.0


class Page(BaseModel):
    number: int
    lines: list[Line] = []


@dataclasses.dataclass
class Tree:
    branches: list["Tree"] = dataclasses.field(default_factory=list)


class Size(enum.StrEnum):
    SMALL = "small"
    LARGE = "large"


@trilith.service
class Recognizer:
    @trilith.api(batch=trilith.Batch(max_size=4))
    async def read(self, crops: list[np.ndarray]) -> list[str]:
        return [str(crop.shape) for crop in crops]


@trilith.service
class Everything:
    """One of each."""

    recognizer = trilith.depends(Recognizer)

    @trilith.api
    async def add(self, a: float, b: float = 1.0) -> float:
        """Adds two numbers.

        Nothing more.
        """
        return a + b

    @trilith.api
    async def pages(self, page: Page, /) -> list[Line]:
        return page.lines

    @trilith.api
    async def crops(self, image: Image.Image, count: int = 3) -> list[str]:
        array = np.asarray(image)
        return await asyncio.gather(*(self.recognizer.read(array[: i + 1]) for i in range(count)))

    @trilith.api
    def turn(self, image: Image.Image) -> Image.Image:
        return image.transpose(Image.Transpose.ROTATE_90)

    @trilith.api
    def turn_all(self, images: list[Image.Image]) -> list[Image.Image]:
        return [image.transpose(Image.Transpose.ROTATE_90) for image in images]

    @trilith.api
    async def scale(self, x: NDArray[np.float32], factor: float = 2.0) -> NDArray[np.float32]:
        return x * np.float32(factor)

    @trilith.api
    async def plus(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    @trilith.api
    async def reverse(self, data: bytes) -> bytes:
        return data[::-1]

    @trilith.api
    def name(self, file: pathlib.Path, note: str = "") -> str:
        return f"{file.name} {file.stat().st_size} {note}"

    @trilith.api
    async def mix(self, a: int, b: int = 2, *, c: int, d: int = 4) -> list[int]:
        return [a, b, c, d]

    @trilith.api
    async def grow(self, tree: Tree, size: Size | None = None) -> Tree:
        return tree

    @trilith.api
    async def nothing(self) -> None:
        return None

    @trilith.api(timeout_s=0.05)
    async def slow(self) -> None:
        await asyncio.sleep(30)

    @trilith.api
    async def fail(self, kind: str) -> None:
        raise {"full": QueueFull("full", retry_after_s=7), "bug": ValueError("secret")}[kind]


class Front:
    """A gateway in miniature: every route is a method of one host."""

    def __init__(self, host: ServiceHost, service: object) -> None:
        self.host = host
        self.description = describe(service)

    def __call__(self, request: HttpRequest) -> None:
        if request.path == "/openapi.json":
            request.respond(200, msgspec.json.encode(openapi_document(self.description)))
            return
        if request.path == "/docs":
            request.respond(200, docs_html(self.description.name), content_type=b"text/html")
            return
        method = self.description.route(request.path)
        if method is None:
            request.respond(404, b"<p>a page of somebody else")
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        meta = CallMeta(self.description.name, method.name, headers.get("content-type", ""), "request-1", headers)

        def done(outcome: ResultMeta | TrilithError, buffers: object) -> None:
            if isinstance(outcome, TrilithError):
                after = retry_after(outcome)
                extra = [(b"retry-after", after)] if after else []
                request.respond(http_status(outcome), error_body(outcome, "request-1"), headers=extra)
            else:
                [body] = buffers  # type: ignore[misc]
                request.respond(200, body, content_type=outcome.content_type.encode())

        context = Context(request_id="request-1", timeline=Timeline("service", 2), headers=headers)
        call = ServiceCall(meta, [request.body_nowait()], context, done)
        request.on_disconnect = call.cancel
        self.host.handle(call)


@contextlib.contextmanager
def serving(service: object) -> Iterator[str]:
    """The service's URL, while it is served by a loop in a thread."""
    ready: threading.Event = threading.Event()
    found: dict[str, object] = {}

    async def main() -> None:
        host = ServiceHost(service, InProcessResolver())
        await host.start()
        server = HttpServer(Front(host, service))
        await server.start()
        stop = asyncio.Event()
        found.update(address=server.addresses[0], loop=asyncio.get_running_loop(), stop=stop)
        ready.set()
        await stop.wait()
        await server.drain(1)
        await host.stop()

    thread = threading.Thread(target=lambda: uvloop.run(main()))
    thread.start()
    assert ready.wait(20)
    address, port = found["address"]  # type: ignore[misc]
    try:
        yield f"http://{address}:{port}"
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)  # type: ignore[attr-defined]
        thread.join()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Everything) as found:
        yield found


@pytest.fixture
def client(url: str) -> Iterator[trilith.Client]:
    with trilith.client(url) as found:
        yield found


PICTURE = Image.effect_noise((6, 4), 80).convert("RGB")


def test_signatures_and_documentation(client):
    assert str(inspect.signature(client.add)) == "(a: float, b: float = 1.0) -> float"
    assert client.add.__doc__ == "Adds two numbers.\n\nNothing more."
    assert client.add.__name__ == "add"
    assert "scale" in dir(client)
    assert str(inspect.signature(client.pages)) == "(page: dict, /) -> list[dict]"
    assert str(inspect.signature(client.plus)) == "(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray"
    assert str(inspect.signature(client.turn)).endswith(
        "(image: PIL.Image.Image | bytes | pathlib.Path) -> PIL.Image.Image"
    )
    assert str(inspect.signature(client.mix)) == "(a: int, b: int = 2, *, c: int, d: int = 4) -> list[int]"
    assert str(inspect.signature(client.grow)) == "(tree: dict, size: str | None = None) -> dict"


def test_json(client):
    assert client.add(1, b=2.5) == 3.5
    assert client.add(a=1) == 2
    assert client.nothing() is None
    assert client.add(1, 2.5) == 3.5
    assert client.mix(1, c=3) == [1, 2, 3, 4]
    assert client.mix(1, 5, d=6, c=3) == [1, 5, 3, 6]
    assert client.grow({"branches": [{}]}, "small") == {"branches": [{"branches": []}]}
    with pytest.raises(AttributeError, match="has no method 'sub'; it has add"):
        client.sub(1)


@pytest.mark.parametrize(
    ("args", "named", "problem"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"a": 2}, "multiple values for argument 'a'"),
        ((1,), {"factor": 2}, "got an unexpected keyword argument 'factor'"),
        ((), {"factor": 2}, "got an unexpected keyword argument 'factor'"),
        ((), {"aa": 2}, "got an unexpected keyword argument 'aa' (did you mean 'a'?)"),
    ],
)
def test_a_wrong_call_is_told_what_the_method_takes(client, args, named, problem):
    with pytest.raises(TypeError) as caught:
        client.add(*args, **named)
    assert str(caught.value) == f"add: {problem}; it is add(a: float, b: float = 1.0) -> float"


def test_the_servers_names_do_not_hide_the_clients(url):
    shown = {name for kind in (Client, AsyncClient) for name in dir(kind) if not is_client_name(name)}
    assert shown == {"__call__"}


def test_models_and_dataclasses(client):
    lines = [Line("a"), Line("b", 0.5)]
    expected = [{"text": "a", "score": 1.0}, {"text": "b", "score": 0.5}]
    assert client.pages(Page(number=1, lines=lines)) == expected
    assert client.pages({"number": 1, "lines": lines}) == expected


def test_images(client, tmp_path):
    turned = PICTURE.transpose(Image.Transpose.ROTATE_90)
    assert client.turn(PICTURE).tobytes() == turned.tobytes()
    path = tmp_path / "page.png"
    PICTURE.save(path)
    assert client.turn(path).tobytes() == turned.tobytes()
    assert client.turn(path.read_bytes()).tobytes() == turned.tobytes()
    assert [image.size for image in client.turn_all([PICTURE, path])] == [(4, 6), (4, 6)]
    assert client.crops(PICTURE, count=2) == ["(1, 6, 3)", "(2, 6, 3)"]


def test_arrays(client):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = client.scale(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, 2 * x)
    np.testing.assert_array_equal(client.scale(x, factor=3), 3 * x)
    np.testing.assert_array_equal(client.scale([[1, 2]]), [[2, 4]])
    np.testing.assert_array_equal(client.plus(x, x.astype(np.float64)), 2 * x)


def test_bytes_and_files(client, tmp_path):
    assert client.reverse(b"abc") == b"cba"
    path = tmp_path / "some file.txt"
    path.write_text("12345")
    assert client.name(path) == "some file.txt 5 "
    assert client.name(path, note='"5"') == 'some file.txt 5 "5"'
    assert client.name(b"123") == "file 3 "


def test_errors_are_trilith_errors(client):
    with pytest.raises(InvalidInput, match=r"Everything.add: .*\$\.a"):
        client.add("x")
    with pytest.raises(QueueFull) as caught:
        client.fail("full")
    assert caught.value.retry_after_s == 7
    with pytest.raises(ServiceError, match=r"Everything.fail failed; see the server's log, request id request-1"):
        client.fail("bug")
    with pytest.raises(InvalidInput, match="turn: image: expected an image"):
        client.turn(b"nothing")
    with pytest.raises(InvalidInput, match="argument cannot be sent"):
        client.add(object())
    for wrong, said in ((5, r"got int$"), ("page.png", r"got str; a file's name is given as pathlib.Path\(...\)")):
        with pytest.raises(InvalidInput, match=r"turn: .*image: takes a PIL image, bytes, or a pathlib.Path, " + said):
            client.turn(wrong)
    with pytest.raises(InvalidInput, match=r"turn_all: .*images: takes a list, got Image"):
        client.turn_all(PICTURE)


def test_time_limits(client):
    with pytest.raises(DeadlineExceeded, match=r"Everything.slow did not answer"):
        client.slow()
    with pytest.raises(DeadlineExceeded):
        client.with_timeout(0.01).slow()
    assert client.with_timeout(10).add(1) == 2


def test_asynchronous(url):
    async def main():
        async with trilith.client(url, asynchronous=True) as client:
            sums = await asyncio.gather(*(client.add(i) for i in range(20)))
            turned = await client.turn(PICTURE)
            with pytest.raises(InvalidInput):
                await client.add("x")
        return sums, turned.size

    assert asyncio.run(main()) == ([float(i + 1) for i in range(20)], (4, 6))


def test_an_asynchronous_client_asks_when_it_is_first_used(url):
    async def main():
        client = trilith.client(url, asynchronous=True)
        quick = client.with_timeout(5)
        try:
            assert "add" not in dir(client)
            assert await asyncio.gather(*(client.add(i) for i in range(5))) == [1.0, 2.0, 3.0, 4.0, 5.0]
            assert await quick.add(1) == 2.0
            assert "add" in dir(client)
            assert client.add.__doc__.startswith("Adds two numbers.")
            with pytest.raises(AttributeError, match="has no method 'sub'; it has add"):
                await client.sub(1)
            with pytest.raises(AttributeError, match="has no method '_private'"):
                client._private  # noqa: B018
        finally:
            await client.close()

    asyncio.run(main())


def test_an_asynchronous_client_sends_nothing_before_it_is_used():
    async def main():
        client = trilith.client("http://127.0.0.1:1", asynchronous=True)
        with pytest.raises(NoReadyReplica, match="is the server running"):
            await client.add(1)
        with pytest.raises(NoReadyReplica, match="is the server running"):
            async with client:
                pytest.fail("entered")

    asyncio.run(main())


def test_what_a_server_refuses_is_the_calling_services_failure(url, caplog):
    @trilith.service
    class Relay:
        @trilith.api
        async def run(self) -> float:
            async with trilith.client(url, asynchronous=True) as everything:
                return await everything.add("x")

    with serving(Relay) as relay, trilith.client(relay) as client, pytest.raises(ServiceError):
        client.run()
    assert f"Relay.run called add of {url} with an argument that it refuses" in caplog.text


def test_a_function_is_called_as_one():
    @trilith.service
    def double(x: int) -> int:
        return 2 * x

    with serving(double) as url, trilith.client(url) as client:
        assert client(4) == 8
        assert client.double(x=4) == 8
        assert httpx.post(url + "/", json={"x": 2}).json() == 4

        async def main():
            double = trilith.client(url, asynchronous=True)
            result = await double(5)
            await double.close()
            return result

        assert asyncio.run(main()) == 10


def test_nothing_there():
    with pytest.raises(NoReadyReplica, match=r"nothing answers at http://127.0.0.1:1: .*; is the server running"):
        trilith.client("http://127.0.0.1:1")


def test_not_a_service_of_trilith(url):
    hint = rf"not a service of Trilith. Without the path it is trilith.client\('{url}'\), whose methods are the paths"
    with pytest.raises(Unsupported, match=hint):
        trilith.client(url + "/add")


def test_a_url_without_a_scheme(url):
    with trilith.client(url.removeprefix("http://")) as client:
        assert client.add(1) == 2


def test_tls_where_there_is_none(url):
    secure = url.replace("http", "https")
    with pytest.raises(NoReadyReplica, match=f"no TLS connection to {secure}: .*speaks plain HTTP, write {url}$"):
        trilith.client(secure)


@pytest.mark.parametrize(
    "wrong",
    ["", "http://", "ftp://host", "http://host:port", "http://host:99999", "http://host?a=1", "a b", "unix:///x"],
)
def test_what_is_no_address(wrong):
    with pytest.raises(InvalidConfig, match=r"takes the address of a server, like http://127.0.0.1:8000, got '"):
        trilith.client(wrong)


def test_a_closed_client_says_so(url):
    client = trilith.client(url)
    other = client.with_timeout(1)
    client.close()
    for closed in (client, other):
        with pytest.raises(RuntimeError, match=f"the client of {url} is closed: make a new one"):
            closed.add(1)

    async def main():
        client = trilith.client(url, asynchronous=True)
        await client.close()
        with pytest.raises(RuntimeError, match="is closed"):
            await client.add(1)
        async with trilith.client(url, asynchronous=True) as client:
            pass
        with pytest.raises(RuntimeError, match="is closed"):
            await client.add(1)

    asyncio.run(main())


def test_raw_http(url):
    assert httpx.post(url + "/add", json={"a": 1}).text == "2.0"
    refused = httpx.post(url + "/add", content=b"a=1", headers={"content-type": "text/plain"})
    assert refused.status_code == 415
    assert refused.json()["error"]["code"] == "unsupported_media_type"
    refused = httpx.post(url + "/add", json={"a": 1, "c": 2})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_input")
    assert "Extra inputs are not permitted - at `$.c`" in refused.json()["error"]["message"]
    page = httpx.get(url + "/docs")
    assert "<title>Everything</title>" in page.text

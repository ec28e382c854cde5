"""Models that SageMaker loads one by one: its paths, its statuses, and what is refused."""

import asyncio
import json

import pytest
from oip_fakes import FakeHttpRequest, FakeRuntime

from trilith.cli.serve import serve
from trilith.errors import Conflict, InvalidConfig, InvalidInput, ModelError, NotFound, SetupError, UnknownReference
from trilith.runtime.placed import place_of
from trilith.runtime.protocol import OipHttp
from trilith.runtime.protocol.hosted import PAGE
from trilith.wire.oip_options import ProtocolOptions, Restriction
from trilith.wire.platforms import HOSTED, hosted_target, sagemaker_routes

SAGEMAKER = sagemaker_routes({"SAGEMAKER_MULTI_MODEL": "true"}, 8080)


class Hosting(FakeRuntime):
    """Hosts what it is asked for, unless it is to refuse it, or to wait."""

    def __init__(self, refuses=None, waits=None):
        super().__init__()
        self.asked = self.repository.asked
        self.repository.host = self.host
        self.refuses = refuses
        self.waits = waits

    async def host(self, name, url):
        if self.waits is not None:
            await self.waits.wait()
        if self.refuses is not None:
            raise self.refuses
        self.asked.append(("host", name, url))
        self.repository.urls[name] = url


def app_of(runtime, **options):
    return OipHttp(runtime, options=ProtocolOptions(platforms=(SAGEMAKER,), **options))


async def ask(app, method, path, body=b"", query="", headers=()):
    request = FakeHttpRequest(method, path, body, headers=headers)
    request.query = query
    waits = app(request)
    if waits is not None:
        await waits
    return request.status, request.answer


def load(app, name="m", url="/opt/ml/models/m/model"):
    return ask(app, "POST", HOSTED, json.dumps({"model_name": name, "url": url}).encode())


@pytest.mark.parametrize(
    ("path", "leads_to", "calls"),
    [
        ("/models", HOSTED, False),
        ("/models/m", f"{HOSTED}/m", False),
        ("/models/a%2Fb", f"{HOSTED}/a%2Fb", False),
        ("/models/m/invoke", "/v2/models/m/infer", True),
    ],
)
def test_a_path_is_another_name(path, leads_to, calls):
    assert hosted_target(SAGEMAKER, path) == (leads_to, calls)


@pytest.mark.parametrize(
    "path", ["/models/", "/models/m/", "/models/m/delete", "/models//invoke", "/models/m/invoke/x"]
)
def test_other_paths_are_none(path):
    with pytest.raises(NotFound, match="there is no endpoint"):
        hosted_target(SAGEMAKER, path)


def test_load_list_get_and_delete():
    async def main():
        runtime = Hosting()
        app = app_of(runtime)
        assert await ask(app, "GET", HOSTED) == (200, b'{"models":[]}')
        assert await load(app) == (200, b"{}")
        status, answer = await load(app, url="elsewhere")
        assert (status, "is loaded already" in answer.decode()) == (409, True)
        entry = {"modelName": "m", "modelUrl": "/opt/ml/models/m/model"}
        status, answer = await ask(app, "GET", f"{HOSTED}/m")
        assert (status, json.loads(answer)) == (200, entry)
        status, answer = await ask(app, "GET", HOSTED)
        assert json.loads(answer) == {"models": [entry]}
        assert await ask(app, "DELETE", f"{HOSTED}/m") == (200, b"{}")
        for method in ("GET", "DELETE"):
            assert (await ask(app, method, f"{HOSTED}/m"))[0] == 404
        assert await load(app) == (200, b"{}")
        assert runtime.asked[:2] == [("host", "m", "/opt/ml/models/m/model"), ("unload", "m", True)]

    asyncio.run(main())


def test_what_cannot_be_unloaded_is_there_still():
    async def main():
        runtime = Hosting()
        app = app_of(runtime)
        await load(app)
        runtime.repository.refuse = Conflict("it is being loaded")
        for _ in range(2):
            assert (await ask(app, "DELETE", f"{HOSTED}/m"))[0] == 409
            assert (await ask(app, "GET", f"{HOSTED}/m"))[0] == 200
        runtime.repository.refuse = None
        assert await ask(app, "DELETE", f"{HOSTED}/m") == (200, b"{}")
        assert await load(app) == (200, b"{}")

    asyncio.run(main())


def test_what_others_unload_is_listed_no_more_and_its_name_is_free():
    async def main():
        runtime = Hosting()
        app = app_of(runtime)
        await load(app)
        await runtime.repository.unload("m", dependents=False)  # by the path of the repository
        assert await ask(app, "GET", HOSTED) == (200, b'{"models":[]}')
        assert await load(app, url="elsewhere") == (200, b"{}")

    asyncio.run(main())


def test_pages():
    async def main():
        app = app_of(Hosting())
        names = [f"m{number:03}" for number in range(PAGE + 20)]
        for name in names:
            await load(app, name)
        listed, query = [], "limit=1000"
        while query is not None:
            _, answer = await ask(app, "GET", HOSTED, query=query)
            page = json.loads(answer)
            assert len(page["models"]) <= PAGE
            listed += [model["modelName"] for model in page["models"]]
            query = f"next_page_token={page['nextPageToken']}" if "nextPageToken" in page else None
        assert listed == names
        _, answer = await ask(app, "GET", HOSTED, query="next_page_token=m007&limit=2")
        assert [model["modelName"] for model in json.loads(answer)["models"]] == ["m008", "m009"]
        assert json.loads(answer)["nextPageToken"] == "m009"
        for limit in ("0", "-1", "x", "", "1" * 50):
            assert (await ask(app, "GET", HOSTED, query=f"limit={limit}"))[0] == 400

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SetupError("model 'm' version 1: MemoryError: "), 507),
        (SetupError("CUDA out of memory"), 507),
        (SetupError("no room for the models in /x; free some"), 507),
        (SetupError("model 'm': it is broken"), 400),
        (UnknownReference("/x: there is no such folder"), 400),
        (InvalidConfig("config.pbtxt: x"), 400),
    ],
)
def test_what_cannot_be_loaded(error, status):
    async def main():
        runtime = Hosting(refuses=error)
        app = app_of(runtime)
        assert (await load(app))[0] == status
        assert (await ask(app, "GET", f"{HOSTED}/m"))[0] == 404
        runtime.refuses = None
        assert (await load(app))[0] == 200

    asyncio.run(main())


def test_of_two_at_the_same_time_one_is_refused():
    async def main():
        runtime = Hosting(waits=asyncio.Event())
        app = app_of(runtime)
        first = asyncio.ensure_future(load(app))
        await asyncio.sleep(0)
        assert (await load(app))[0] == 409
        runtime.waits.set()
        assert (await first)[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "form", "status"),
    [
        (ModelError("model 'm': CUDA out of memory"), b"application/x;json-header-size=", 507),
        (ModelError("model 'm': CUDA out of memory"), b"", 500),
        (ModelError("model 'm': it is broken"), b"application/x;json-header-size=", 500),
        (InvalidInput("MemoryError"), b"application/x;json-header-size=", 400),
    ],
)
def test_a_model_that_finds_no_room_while_it_runs(error, form, status):
    runtime = FakeRuntime()
    runtime.refuse = error
    body = b'{"inputs": [{"name": "IN", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}'
    request = FakeHttpRequest("POST", "/v2/models/m/infer", body)
    request.binary_form = form
    app_of(runtime)(request)
    assert request.status == status


def test_a_load_goes_on_without_whoever_asked_for_it():
    async def main():
        runtime = Hosting(waits=asyncio.Event())
        app = app_of(runtime)
        first = asyncio.ensure_future(load(app))
        for _ in range(5):
            await asyncio.sleep(0)  # until it waits for the load
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        runtime.waits.set()
        await asyncio.gather(*app._hosted._begun)
        assert (await ask(app, "GET", f"{HOSTED}/m"))[0] == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"model_name": "m"}',
        b'{"url": "u"}',
        b'{"model_name": "", "url": "u"}',
        b'{"model_name": 1, "url": "u"}',
    ],
)
def test_a_wrong_message(body):
    async def main():
        status, _ = await ask(app_of(Hosting()), "POST", HOSTED, body)
        assert status == 400

    asyncio.run(main())


def test_it_is_off_unless_asked_for_and_restricted_as_the_repository():
    async def main():
        for method, path in (("GET", HOSTED), ("POST", HOSTED), ("DELETE", f"{HOSTED}/m")):
            assert (await ask(OipHttp(Hosting()), method, path))[0] == 404
            restricted = app_of(
                Hosting(),
                http_restricted=(Restriction(groups=("model-repository",), header="x-admin", value="yes"),),
            )
            assert (await ask(restricted, method, path))[0] == 403
        assert (await ask(app_of(Hosting()), "PUT", HOSTED))[0] == 405
        assert (await ask(app_of(Hosting()), "POST", f"{HOSTED}/m"))[0] == 405

    asyncio.run(main())


def test_the_place_of_a_model(tmp_path):
    def made(*path):
        folder = tmp_path.joinpath(*path)
        (folder / "1").mkdir(parents=True)
        return folder

    one = made("one")
    assert place_of(str(one), tmp_path) == one
    inside = made("outer", "inner")
    assert place_of(str(tmp_path / "outer"), tmp_path) == inside
    made("outer", "other")
    for url, says in (
        (tmp_path / "outer", "expected the folder of one model, or a folder with one in it; found inner, other"),
        (tmp_path / "nowhere", "there is no such folder"),
        ("models", "must be a whole path, or a URL"),
        ("nope://x", "nope"),
    ):
        with pytest.raises(UnknownReference, match=says):
            place_of(str(url), tmp_path)


def test_the_command_line_wants_a_server_that_is_told_what_to_load(tmp_path, monkeypatch):
    monkeypatch.setenv("SAGEMAKER_MULTI_MODEL", "true")
    (tmp_path / "m" / "1").mkdir(parents=True)
    with pytest.raises(InvalidConfig, match="say --model-control-mode explicit, got none"):
        serve(tmp_path, allow_sagemaker=True)

"""The doors: what opens them, what is taken off, and when a request gives its place back."""

import asyncio
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.identity import AccessRequest, Identity
from trilith.errors import Bug, Forbidden, NoReadyReplica, RateLimited, Unauthenticated
from trilith.orchestration.access import AccessDesk, KeyLimits, KeyRing, KeyRule
from trilith.orchestration.deployments import MethodRoute
from trilith.orchestration.engine.access_door import (
    GrpcDoor,
    HttpDoor,
    certificate_identity,
    certificate_names,
    joined_headers,
    shown_key,
)
from trilith.orchestration.engine.access_hook import AccessHook

CERTIFICATE = {
    "subject": ((("countryName", "XX"),), (("commonName", "probe"),)),
    "subjectAltName": (("DNS", "probe.example.org"), ("URI", "spiffe://x/probe"), ("IP Address", "::1")),
}


class FakeRequest:
    method = "POST"
    content_length = 2
    client_certificate = None
    request_id = "r"
    peer = "127.0.0.1:1"
    query = ""
    on_end = identity = body_limit = error = None
    finished = False

    def __init__(self, path, *headers):
        self.path = path
        self.headers = list(headers)

    def respond_error(self, error, *, headers=()):
        self.error, self.error_headers, self.finished = error, dict(headers), True


class FakeCall:
    peer_certificate = identity = on_end = attachment = message_limit = allows_model = None
    hidden = ()
    peer, request_id = "127.0.0.1:1", "r"
    answered = cancelled = False

    def __init__(self, path, *metadata):
        self.path = path
        self.metadata = list(metadata)


def desk(*, public=(), **limits):
    found = AccessDesk(lambda *_: None)
    digest = hashlib.sha256(b"secret").hexdigest()
    rule = KeyRule(name="ann", sha256=digest, scopes=("Ocr", "model:a"), limits=KeyLimits(**limits))
    found.use(KeyRing(rules=(rule,), public=public), now=0.0)
    return found


def method_at(path):
    return "Ocr.read" if path in ("/read", "/ocr.Ocr/Read") else ""


class Hook(AccessHook):
    """One whose function is here."""

    def __init__(self, answer, *, cache_s=0.0):
        super().__init__(None, cache_s=cache_s)
        self.route = MethodRoute(
            service="a", method="b", timeout_s=1, idempotent=False, batch_rows=0, batch_wait_s=0, max_waiting=1
        )
        self.asked = []
        self._says = answer

    async def _call(self, route, request, request_id):
        self.asked.append(request)
        await asyncio.sleep(0)
        found = self._says(request)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ([], None),
        ([(b"authorization", b"Bearer  a b ")], b"a b"),
        ([(b"authorization", b"bEARER x")], b"x"),
        ([(b"authorization", b"Basic x")], None),
        ([(b"authorization", b"Basic x"), (b"x-api-key", b"k")], b"k"),
        ([(b"x-api-key", b"k"), (b"authorization", b"Bearer x")], b"x"),
        ([(b"x-api-key", b"k"), (b"x-api-key", b"l")], b"k"),
        ([(b"x-api-key", b"")], b""),
        ([(b"authorization", b"Bearer")], None),
    ],
)
def test_where_a_key_is_looked_for(headers, key):
    assert shown_key(headers) == key


@given(st.lists(st.tuples(st.sampled_from([b"authorization", b"x-api-key", b"cookie"]), st.binary(max_size=20))))
def test_any_headers_can_be_looked_at(headers):
    key = shown_key(headers)
    assert key is None or any(key in value for _, value in headers)
    assert set(joined_headers(headers)) == {name.decode() for name, _ in headers}


def test_names_of_a_certificate():
    assert certificate_names(CERTIFICATE) == ["probe", "probe.example.org", "spiffe://x/probe"]
    assert certificate_names(None) == certificate_names({"subject": ()}) == []
    assert certificate_identity({"subject": ()}) is None
    assert certificate_identity(CERTIFICATE).name == "probe"


def test_headers_that_came_several_times():
    assert joined_headers([(b"a", b"1"), (b"cookie", b"x=1"), (b"a", b"2"), (b"cookie", b"y=2")]) == {
        "a": "1, 2",
        "cookie": "x=1; y=2",
    }


def test_what_may_pass_goes_on_without_its_key_and_gives_its_place_back():
    passed = []
    found = desk(concurrency=1, max_body_bytes=10)
    door = HttpDoor(passed.append, found, None, method_at)
    request = FakeRequest("/read", (b"x-api-key", b"secret"), (b"accept", b"*/*"))
    door(request)
    assert passed == [request]
    assert request.headers == [(b"accept", b"*/*")]
    assert (request.identity.name, request.body_limit, found.in_flight()) == ("ann", 10, {"ann": 1})
    other = FakeRequest("/read", (b"x-api-key", b"secret"))
    door(other)
    assert isinstance(other.error, RateLimited)
    request.on_end()
    assert found.in_flight() == {"ann": 0}


@pytest.mark.parametrize(
    ("path", "headers", "error", "challenge"),
    [
        ("/read", [], Unauthenticated, b'Bearer realm="trilith"'),
        ("/read", [(b"x-api-key", b"forged")], Unauthenticated, b'Bearer realm="trilith", error="invalid_token"'),
        ("/other", [(b"x-api-key", b"secret")], Forbidden, None),
    ],
)
def test_who_may_not_is_answered(path, headers, error, challenge):
    request = FakeRequest(path, *headers)
    HttpDoor(lambda _: pytest.fail("it passed"), desk(), None, method_at)(request)
    assert type(request.error) is error
    assert request.error_headers.get(b"www-authenticate") == challenge


def test_a_probe_passes_with_whatever_it_shows():
    passed = []
    door = HttpDoor(passed.append, desk(), None, method_at)
    door(FakeRequest("/livez", (b"x-api-key", b"forged")))
    assert passed[0].headers == []


def test_without_keys_a_certificate_says_who_it_is():
    passed = []
    request = FakeRequest("/read", (b"authorization", b"Bearer mine"))
    request.client_certificate = CERTIFICATE
    HttpDoor(passed.append, None, None, method_at)(request)
    assert request.identity.kind == "certificate"
    assert request.headers == [(b"authorization", b"Bearer mine")]  # the service's own, here


def noting():
    """An application that answers later: what came to it, and an event for that."""
    passed, there = [], asyncio.Event()

    def app(request):
        passed.append(request)
        there.set()

    return app, passed, there


def test_who_has_no_key_is_asked_about_and_then_answered_to_its_end():
    async def scenario():
        hook = Hook(lambda asked: Identity(name=asked.headers["x"]))
        app, passed, there = noting()
        door = HttpDoor(app, desk(public=("/free",)), hook, method_at)
        request = FakeRequest("/read", (b"x", b"bob"))
        task = asyncio.ensure_future(door(request))
        await asyncio.wait_for(there.wait(), 20)
        assert not task.done()  # the application answers later
        request.on_end()
        await task
        assert request.identity.name == "bob"
        assert hook.asked == [
            AccessRequest(method="POST", path="/read", asks="Ocr.read", headers={"x": "bob"}, client="127.0.0.1:1")
        ]
        for path, headers in (("/free", ()), ("/livez", ()), ("/read", ((b"x-api-key", b"secret"),))):
            assert door(FakeRequest(path, *headers)) is None
        assert len(hook.asked) == 1
        assert len(passed) == 4

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("says", "error"),
    [(None, Unauthenticated), (Forbidden("no"), Forbidden), (NoReadyReplica("later"), NoReadyReplica)],
)
def test_nobody_passes_by_an_error(says, error):
    request = FakeRequest("/read")
    door = HttpDoor(lambda _: pytest.fail("it passed"), None, Hook(lambda _: says), method_at)
    asyncio.run(door(request))
    assert type(request.error) is error


def test_before_the_application_is_known_nobody_passes():
    hook = Hook(lambda _: Identity(name="x"))
    hook.route = None
    request = FakeRequest("/read")
    asyncio.run(HttpDoor(lambda _: pytest.fail("it passed"), None, hook, method_at)(request))
    assert isinstance(request.error, NoReadyReplica)


def test_an_answer_is_remembered_by_what_decides_it_and_a_refusal_is_not():
    async def scenario():
        known = {"ann": Identity(name="ann")}
        hook = Hook(lambda asked: known.get(asked.headers.get("cookie", "")), cache_s=3600)

        numbers = iter(range(100))

        async def ask(path, cookie, method="POST", query="", other=b"1", certificate=None):
            number = next(numbers)
            request = FakeRequest(path, (b"cookie", cookie), (b"x-other", other), (b"x-request-id", b"%d" % number))
            request.peer = f"10.0.0.1:{number}"
            request.client_certificate = certificate
            request.query = query
            request.method = method
            door = HttpDoor(lambda found: found.__setattr__("finished", True), None, hook, method_at)
            task = door(request)
            if task is not None:
                await task
            return request

        assert (await ask("/read", b"ann")).identity.name == "ann"
        assert (await ask("/read", b"ann")).identity.name == "ann"
        assert len(hook.asked) == 1
        for path, cookie, method in (("/other", b"ann", "POST"), ("/read", b"ann", "GET"), ("/read", b"eve", "POST")):
            await ask(path, cookie, method)
        await ask("/read", b"ann", query="token=2")
        assert [asked.query for asked in hook.asked] == ["", "", "", "", "token=2"]
        known["eve"] = Identity(name="eve")
        assert (await ask("/read", b"eve")).identity.name == "eve"
        assert len(hook.asked) == 6
        await ask("/read", b"ann", other=b"2")  # the function may look at any header
        await ask("/read", b"ann", certificate={"subject": ((("commonName", "bob"),),)})
        assert len(hook.asked) == 8

    asyncio.run(scenario())


def test_what_is_remembered_has_a_bound():
    async def scenario():
        hook = Hook(lambda _: Identity(name="x"), cache_s=3600)
        for number in range(10_050):
            hook._known[number.to_bytes(4)] = 1e12, Identity(name="x")
        asked = AccessRequest(method="POST", path="/read")
        key, _ = hook.remembered(asked)
        await hook.ask(asked, request_id="r", key=key)
        assert len(hook._known) == 10_000
        assert hook.remembered(asked)[1] is not None

    asyncio.run(scenario())


def test_calls_of_grpc():
    found = desk(concurrency=2, max_body_bytes=10)
    door = GrpcDoor(found, None, method_at)
    call = FakeCall(b"/ocr.Ocr/Read", (b"authorization", b"Bearer secret"))
    door.admit(call)
    assert (call.identity.name, call.message_limit, found.in_flight()) == ("ann", 10, {"ann": 1})
    assert b"authorization" in call.hidden
    call.on_end()
    assert found.in_flight() == {"ann": 0}
    infer = FakeCall(b"/inference.GRPCInferenceService/ModelInfer", (b"x-api-key", b"secret"))
    door.admit(infer)
    assert (infer.allows_model("a"), infer.allows_model("b")) == (True, False)
    with pytest.raises(Unauthenticated):
        door.admit(FakeCall(b"/ocr.Ocr/Read"))
    refused = FakeCall(b"/other.Other/Read", (b"x-api-key", b"secret"))
    with pytest.raises(Forbidden):
        door.admit(refused)
    assert refused.identity.name == "ann"
    door.admit(FakeCall(b"/grpc.health.v1.Health/Check"))
    app = object()
    assert door.asking(app) is app


def test_calls_of_grpc_that_are_asked_about():
    async def scenario():
        hook = Hook(lambda asked: Identity(name=asked.headers["x"]))
        door = GrpcDoor(None, hook, method_at)
        inner, _, there = noting()
        app = door.asking(inner)
        call = FakeCall(b"/ocr.Ocr/Read", (b"x", b"bob"))
        door.admit(call)
        task = asyncio.ensure_future(app(call))
        await asyncio.wait_for(there.wait(), 20)
        assert not task.done()
        call.on_end()
        await task
        assert call.identity.name == "bob"
        probe = FakeCall(b"/inference.GRPCInferenceService/ServerLive")
        door.admit(probe)
        assert app(probe) is None
        assert len(hook.asked) == 1

    asyncio.run(scenario())


def test_nobody_decides_is_a_bug_and_no_way_in():
    class Undecided(AccessDesk):
        def admit(self, *_, **__):
            return None

    door = HttpDoor(lambda _: pytest.fail("it passed"), Undecided(lambda *_: None), None, method_at)
    with pytest.raises(Bug):
        door(FakeRequest("/read"))

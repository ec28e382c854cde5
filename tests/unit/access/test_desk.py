"""Who may pass, and what becomes of the others."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import Forbidden, NoReadyReplica, PayloadTooLarge, RateLimited, Unauthenticated
from trilith.orchestration.access import AccessDesk, KeyLimits, KeyRing, KeyRule, asked_of_grpc, asked_of_http
from trilith.orchestration.access.asked import Asked
from trilith.runtime.protocol import model_at

OIP = "/inference.GRPCInferenceService/"


def rule(name: str, *scopes: str, expires_at: float | None = None, **limits: object) -> KeyRule:
    return KeyRule(
        name=name,
        sha256=hashlib.sha256(name.encode()).hexdigest(),
        scopes=scopes,
        expires_at=expires_at,
        limits=KeyLimits(**limits),
    )


class Desk:
    def __init__(self, *rules: KeyRule, public: tuple[str, ...] = ()) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.desk = AccessDesk(lambda key, outcome: self.counts.update([(key, outcome)]))
        self.desk.use(KeyRing(rules=rules, public=public), now=0.0)

    def ask(self, asked: Asked, key: str | None = None, *, body_bytes=None, now=0.0, wall=0.0, certificates=()):
        shown = None if key is None else key.encode()
        return self.desk.admit(asked, shown, certificates, body_bytes=body_bytes, now=now, wall=wall)


def http(path: str) -> Asked:
    return asked_of_http(path, lambda path: "Ocr.read" if path in ("/read", "/") else "", model_at)


def grpc(path: str) -> Asked:
    return asked_of_grpc(path, lambda path: "Ocr.read" if path == "/ocr.Ocr/Read" else "")


def test_before_the_first_keys_only_probes_pass():
    desk = AccessDesk(lambda *_: None)
    desk.admit(http("/readyz"), None, (), body_bytes=None, now=0, wall=0)
    with pytest.raises(NoReadyReplica):
        desk.admit(http("/read"), b"a", (), body_bytes=None, now=0, wall=0)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v2/health/live", "/v2/health/ready"])
def test_probes_need_no_key(path):
    assert Desk().ask(http(path)).identity is None


@pytest.mark.parametrize("path", [f"{OIP}ServerLive", f"{OIP}ServerReady", "/grpc.health.v1.Health/Watch"])
def test_probes_over_grpc_need_no_key(path):
    assert Desk().ask(grpc(path)).identity is None


OF_SERVER = [
    http("/docs"),
    http("/v2"),
    grpc(f"{OIP}ServerMetadata"),
    grpc("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
]


@pytest.mark.parametrize("asked", OF_SERVER)
def test_what_is_said_of_the_server_needs_a_key_whatever_it_opens(asked):
    desk = Desk(rule("ann", "Nothing"))
    assert desk.ask(asked, "ann").identity.name == "ann"
    with pytest.raises(Unauthenticated, match="this needs a key"):
        desk.ask(asked)


@pytest.mark.parametrize(
    ("scope", "asked", "opens"),
    [
        ("Ocr", http("/read"), True),
        ("Ocr.read", http("/"), True),
        ("Ocr.other", http("/read"), False),
        ("/read", http("/read"), True),
        ("Ocr", grpc("/ocr.Ocr/Read"), True),
        ("/ocr.Ocr/*", grpc("/ocr.Ocr/Read"), True),
        ("model:a", http("/v2/models/a/infer"), True),
        ("model:a", http("/v2/models/a/versions/3/infer"), True),
        ("model:a", http("/v2/models/%61/infer"), True),
        ("model:a", http("/v2/models/a"), True),
        ("model:a", http("/v2/models/b/infer"), False),
        ("model:a", http("/v2/models/stats"), False),
        ("model:*", http("/v2/models/stats"), True),
        ("model:*", http("/v2/repository/models/a/unload"), False),
        ("model:*", http("/v2/repository/index"), False),
        ("/v2/repository/*", http("/v2/repository/models/a/unload"), True),
        ("model:*", http("/v2/logging"), False),
        ("model:*", http("/metrics"), False),
        ("/metrics", http("/metrics"), True),
        ("model:*", grpc(f"{OIP}RepositoryModelUnload"), False),
        ("model:a", grpc(f"{OIP}ModelInfer"), True),
        ("Ocr", grpc(f"{OIP}ModelInfer"), False),
        (f"{OIP}*", grpc(f"{OIP}ModelInfer"), True),
        ("*", http("/anything"), True),
    ],
)
def test_scopes(scope, asked, opens):
    desk = Desk(rule("ann", scope))
    if opens:
        assert desk.ask(asked, "ann").identity.name == "ann"
        assert desk.counts == {("ann", "ok"): 1}
    else:
        with pytest.raises(Forbidden, match="the key 'ann' does not open"):
            desk.ask(asked, "ann")
        assert desk.counts == {("ann", "forbidden"): 1}


def test_the_model_of_a_message_is_asked_about_later():
    desk = Desk(rule("ann", "model:ocr-*"), rule("all", "*"), rule("path", f"{OIP}*"), public=("model:free",))
    grant = desk.ask(grpc(f"{OIP}ModelInfer"), "ann")
    assert [grant.allows_model(name) for name in ("ocr-rec", "free", "other", "")] == [True, True, False, False]
    for key in ("all", "path"):
        assert desk.ask(grpc(f"{OIP}ModelInfer"), key).allows_model("other")
    nobody = desk.ask(grpc(f"{OIP}ModelInfer"))
    assert (nobody.allows_model("free"), nobody.allows_model("ocr-rec")) == (True, False)


def test_what_is_public_needs_no_key_and_a_wrong_one_is_told():
    desk = Desk(rule("ann", "Nothing"), public=("/docs", "Ocr"))
    assert desk.ask(http("/read")).identity is None
    assert desk.ask(http("/read"), "ann").identity.name == "ann"
    assert desk.ask(http("/docs")).identity is None
    with pytest.raises(Unauthenticated, match="the key is unknown"):
        desk.ask(http("/read"), "forged")
    with pytest.raises(Unauthenticated):
        desk.ask(http("/metrics"))
    assert desk.counts == {("", "ok"): 2, ("ann", "ok"): 1, ("", "unauthenticated"): 2}


@given(st.text(max_size=600))
def test_only_the_key_itself_opens(text):
    desk = Desk(rule("ann", "*"))
    if text == "ann":
        return
    with pytest.raises(Unauthenticated) as caught:
        desk.ask(http("/read"), text)
    assert caught.value.message == "the key is unknown: it is not among this server's keys, or was taken out"


def test_the_digest_is_no_key():
    desk = Desk(rule("ann", "*"))
    with pytest.raises(Unauthenticated):
        desk.ask(http("/read"), hashlib.sha256(b"ann").hexdigest())


def test_a_key_ends():
    desk = Desk(rule("ann", "*", expires_at=1000.0))
    assert desk.ask(http("/read"), "ann", wall=999.9)
    with pytest.raises(Unauthenticated, match="the key 'ann' has expired"):
        desk.ask(http("/read"), "ann", wall=1000.0)


def test_a_certificate_stands_for_a_key():
    desk = Desk(KeyRule(name="probe", certificate="probe.example.org", scopes=("Ocr",)))
    assert desk.ask(http("/read"), certificates=["other", "probe.example.org"]).identity.kind == "certificate"
    with pytest.raises(Unauthenticated):
        desk.ask(http("/read"), certificates=["other"])
    with pytest.raises(Unauthenticated, match="the key is unknown"):
        desk.ask(http("/read"), "forged", certificates=["probe.example.org"])  # what was shown counts


def test_limits_of_one_key_leave_the_others_alone():
    desk = Desk(
        rule("a", "*", concurrency=1), rule("b", "*", requests_per_s=2, burst=1), rule("c", "*", max_body_bytes=10)
    )
    held = desk.ask(http("/read"), "a")
    with pytest.raises(RateLimited, match="1 requests of the key 'a' are under way") as caught:
        desk.ask(http("/read"), "a")
    assert caught.value.retry_after_s == 1.0
    assert desk.desk.in_flight() == {"a": 1, "b": 0, "c": 0}
    held.release()
    held.release()
    assert desk.desk.in_flight() == {"a": 0, "b": 0, "c": 0}
    assert desk.ask(http("/read"), "a")

    assert desk.ask(http("/read"), "b", now=10.0)
    with pytest.raises(RateLimited, match="allows 2 requests a second") as caught:
        desk.ask(http("/read"), "b", now=10.1)
    assert caught.value.retry_after_s == pytest.approx(0.4)
    assert desk.ask(http("/read"), "b", now=10.51)

    assert desk.ask(http("/read"), "c", body_bytes=10).max_body_bytes == 10
    assert desk.ask(http("/read"), "c").max_body_bytes == 10
    with pytest.raises(PayloadTooLarge, match="has 11 bytes, and the key 'c' allows 10"):
        desk.ask(http("/read"), "c", body_bytes=11)


def test_who_is_refused_uses_up_nothing():
    desk = Desk(rule("a", "Ocr", requests_per_s=1, burst=1, max_body_bytes=10))
    for _ in range(5):
        with pytest.raises(Forbidden):
            desk.ask(http("/metrics"), "a")
        with pytest.raises(PayloadTooLarge):
            desk.ask(http("/read"), "a", body_bytes=11)
        with pytest.raises(Unauthenticated):
            desk.ask(http("/read"), "b")
    assert desk.ask(http("/read"), "a")


def test_who_is_refused_is_known_all_the_same():
    desk = Desk(rule("a", "Ocr"), KeyRule(name="probe", certificate="probe.example.org", scopes=("Ocr",)))
    with pytest.raises(Forbidden):
        desk.ask(http("/metrics"), "a")
    found = desk.desk.identity_of
    assert (found(b"a", ()).name, found(None, ["probe.example.org"]).name) == ("a", "probe")
    assert [found(b"forged", ["probe.example.org"]), found(b"x" * 100_000, ()), found(None, ())] == [None] * 3


def test_new_keys_take_over_and_what_is_under_way_counts_on():
    desk = Desk(rule("a", "*", concurrency=1), rule("old", "*"))
    held = desk.ask(http("/read"), "a")
    desk.desk.use(KeyRing(rules=(rule("a", "Ocr", concurrency=1), rule("new", "*"))), now=0.0)
    with pytest.raises(RateLimited):
        desk.ask(http("/read"), "a")
    held.release()
    assert desk.ask(http("/read"), "a")
    with pytest.raises(Forbidden):
        desk.ask(http("/metrics"), "a")
    with pytest.raises(Unauthenticated):
        desk.ask(http("/read"), "old")
    assert desk.ask(http("/read"), "new")


@given(st.text(max_size=40), st.none() | st.text(max_size=20))
def test_whatever_is_asked_nothing_passes_without_what_opens_it(path, key):
    with pytest.raises((Unauthenticated, Forbidden)):
        Desk(rule("ann", "Ocr")).ask(http("/x" + path), key)

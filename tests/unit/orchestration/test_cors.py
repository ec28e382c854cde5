"""Which pages may call, and what each answer and each preflight says of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import Forbidden, InvalidConfig
from trilith.wire.cors import CorsPolicy, check_websocket_origin, cors_policy, without_cors
from trilith.wire.http1.head import check_headers

PAGE = b"https://app.example.org"
NONE = {"methods": (), "headers": (), "exposed": (), "credentials": False, "max_age_s": 600}


def policy(*origins: str, **changes: object) -> CorsPolicy:
    found = cors_policy(origins=origins, **{**NONE, **changes})
    assert found is not None
    return found


def test_an_answer_names_the_origin_that_may_read_it():
    said = dict(policy("https://app.example.org").answer(PAGE))
    assert said[b"access-control-allow-origin"] == PAGE
    assert said[b"vary"] == b"origin"
    assert b"x-request-id" in said[b"access-control-expose-headers"]
    assert b"access-control-allow-credentials" not in said


@pytest.mark.parametrize(
    "origin", [None, b"https://evil.org", b"null", b"", b"\xff", b"https://app.example.org.evil.org"]
)
def test_another_origin_is_not_named_and_caches_keep_them_apart(origin):
    assert policy("https://app.example.org").answer(origin) == ((b"vary", b"origin"),)


def test_any_origin():
    said = dict(policy("*").answer(b"https://whoever.net"))
    assert said[b"access-control-allow-origin"] == b"*"
    assert b"vary" not in said
    assert policy("*").answer(None) == ()


def test_credentials():
    said = dict(policy("https://app.example.org", credentials=True).answer(PAGE))
    assert said[b"access-control-allow-credentials"] == b"true"
    with pytest.raises(InvalidConfig, match="let every page in the world act"):
        policy("*", credentials=True)
    with pytest.raises(InvalidConfig, match="let every page in the world act"):
        policy("https://app.example.org", "*", credentials=True)


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://a.example.org", True),
        ("https://a.b.example.org", True),
        ("https://example.org", False),
        ("http://a.example.org", False),
        ("https://a.example.org.evil.net", False),
        ("https://evil.net/.example.org", False),
        ("https://evil.net#.example.org", False),
        ("https://user@x.example.org", False),
        ("https://evilexample.org", False),
    ],
)
def test_all_hosts_below_one(origin, allowed):
    assert policy("https://*.example.org").allows(origin) is allowed


@given(st.text(max_size=30))
def test_only_what_is_listed_is_named(origin):
    listed = policy("https://app.example.org", "https://*.example.org")
    if listed.allows(origin):
        assert origin.startswith("https://")
        assert origin.endswith(".example.org")
        assert not set(origin[8:]) & set("/@#?\\ \r\n")


def test_a_preflight():
    said = dict(policy("https://app.example.org").preflight(PAGE, b"POST", b"Content-Type, X-Api-Key"))
    assert said[b"access-control-allow-methods"] == b"GET, HEAD, POST, PUT, PATCH, DELETE"
    assert said[b"access-control-allow-headers"] == b"content-type, x-api-key"
    assert said[b"access-control-max-age"] == b"600"
    assert b"access-control-allow-headers" not in dict(policy("*").preflight(PAGE, b"GET", None))


@pytest.mark.parametrize(
    ("origin", "method", "headers", "words"),
    [
        (b"https://evil.org", b"POST", None, "https://evil.org may not call this server"),
        (PAGE, b"DELETE", None, "may not ask by DELETE"),
        (PAGE, b"post", None, "may not ask by post"),
        (PAGE, b"POST", b"content-type, x-other", "may not send the header x-other"),
        (PAGE, b"POST", b"content-type, a\r\nb", "is no header's name"),
        (PAGE, b"POST", b"\xff", "is no header's name"),
    ],
)
def test_a_preflight_that_may_not(origin, method, headers, words):
    one = policy("https://app.example.org", methods=("post",), headers=("Content-Type",))
    with pytest.raises(Forbidden, match=words):
        one.preflight(origin, method, headers)


@given(st.binary(max_size=60), st.binary(max_size=20), st.none() | st.binary(max_size=60))
def test_whatever_a_browser_asks_the_answer_can_be_sent(origin, method, headers):
    for one in (policy("*"), policy("https://*.example.org", credentials=True)):
        check_headers(one.answer(origin))
        try:
            check_headers(one.preflight(origin, method, headers))
        except Forbidden:
            continue


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"origins": ("example.org",)}, "--cors-origin must be what a browser calls an origin"),
        ({"origins": ("https://Example.org",)}, "lower case"),
        ({"origins": ("https://example.org/",)}, "no slash at the end"),
        ({"origins": ("https://a.*.org",)}, "--cors-origin"),
        ({"origins": ("*",), "methods": ("PO ST",)}, "--cors-method must be a name"),
        ({"origins": ("*",), "headers": ("a:b",)}, "--cors-header must be a name"),
        ({"origins": ("*",), "exposed": ("é",)}, "--cors-expose-header must be a name"),
        ({"origins": ("*",), "max_age_s": -1}, "--cors-max-age-s must be from 0"),
        ({"origins": (), "methods": ("GET",)}, "--cors-method needs --cors-origin"),
        ({"origins": (), "headers": ("a",)}, "--cors-header needs --cors-origin"),
        ({"origins": (), "exposed": ("a",)}, "--cors-expose-header needs --cors-origin"),
        ({"origins": (), "credentials": True}, "--cors-credentials needs --cors-origin"),
    ],
)
def test_options_that_are_wrong(changes, words):
    with pytest.raises(InvalidConfig, match=words.replace("*", r"\*")):
        cors_policy(**{"origins": (), **NONE, **changes})


def test_no_origin_is_no_policy():
    assert cors_policy(origins=(), **NONE) is None


def test_what_the_application_says_of_pages_is_left_out():
    fields = [(b"x-a", b"1"), (b"Access-Control-Allow-Origin", b"*")]
    assert without_cors(fields) == [(b"x-a", b"1")]
    assert without_cors(fields[:1]) is not None


@pytest.mark.parametrize(
    ("origin", "host", "may"),
    [
        (None, b"a.example", True),
        (b"http://a.example:8000", b"a.example:8000", True),
        (b"https://a.example", b"a.example", True),
        (b"https://a.example", b"A.example:443", True),
        (b"http://a.example:80", b"a.example", True),
        (b"http://[::1]:8000", b"[::1]:8000", True),
        (b"https://page.example", b"a.example", True),  # is listed
        (b"http://a.example:8001", b"a.example:8000", False),
        (b"https://a.example", b"a.example:80", False),
        (b"https://a.example.evil.org", b"a.example", False),
        (b"https://evil.org", b"a.example", False),
        (b"https://evil.org", None, False),
        (b"null", b"null", False),
        (b"file://", b"", False),
        (b"", b"", False),
        (b"\xff", b"\xff", False),
    ],
)
def test_which_pages_may_open_a_websocket(origin, host, may):
    listed = policy("https://page.example")
    if may:
        check_websocket_origin(listed, origin, host)
    else:
        with pytest.raises(Forbidden, match="--cors-origin"):
            check_websocket_origin(listed, origin, host)
        check_websocket_origin(policy("*"), origin, host)
    if origin != b"https://page.example" and may:
        check_websocket_origin(None, origin, host)

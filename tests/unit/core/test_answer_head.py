"""What a method may say of its answer, and what is refused where it is said."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.answer_head import AnswerHead, checked_status
from trilith.core.cookies import cookie_text, read_cookies
from trilith.core.header_fields import SERVERS_OWN
from trilith.errors import ServiceError
from trilith.wire.http1.head import check_headers

SAFE = {"max_age_s": None, "path": "/", "domain": None, "secure": True, "http_only": True, "same_site": "lax"}


def sendable(head: AnswerHead) -> None:
    """By the rules of the server that writes it."""
    check_headers([(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.fields])


@given(st.text(max_size=40), st.text(max_size=80))
def test_what_is_taken_can_be_sent_and_ends_no_line(name, value):
    head = AnswerHead()
    try:
        head.set_header(name, value)
    except ServiceError:
        assert head.fields == ()
        return
    sendable(head)
    [(kept, text)] = head.fields
    assert kept == name.lower()
    assert not re.search(r"[\r\n\0]", kept + text)


@given(st.text(max_size=20), st.text(max_size=40), st.text(max_size=20), st.none() | st.text(max_size=20))
def test_a_cookie_that_is_taken_can_be_sent_and_has_only_its_own_attributes(name, value, path, domain):
    head = AnswerHead()
    try:
        head.set_cookie(name, value, **{**SAFE, "path": path, "domain": domain})
    except ServiceError:
        assert head.fields == ()
        return
    sendable(head)
    [(kept, text)] = head.fields
    assert kept == "set-cookie"
    attributes = text.split("; ")
    assert attributes[0] == f"{name}={value}"
    assert [each.partition("=")[0] for each in attributes[1:]] == [
        "Path",
        *(["Domain"] if domain is not None else []),
        "Secure",
        "HttpOnly",
        "SameSite",
    ]


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b=c", "a\nb", "a\rb", "a\0", "a\x1b[2J", "a\x7f"])
def test_a_value_that_would_end_the_line_is_refused(value):
    with pytest.raises(ServiceError, match="'x-note' must not have control characters or line ends"):
        AnswerHead().set_header("X-Note", value)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "é", "a\0", 3, None])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ServiceError, match="name of a header must be a token"):
        AnswerHead().set_header(name, "x")


OWN = [*sorted(SERVERS_OWN - {b"content-type"}), b"trilith-timeline", b"Trilith-Timeline-At", b"trilith-not-begun"]


@pytest.mark.parametrize("name", OWN)
def test_the_servers_own_are_refused(name):
    with pytest.raises(ServiceError, match="the server writes the header"):
        AnswerHead().set_header(name.decode().title(), "x")


def test_what_has_a_way_of_its_own_says_which():
    with pytest.raises(ServiceError, match="set_cookie"):
        AnswerHead().set_header("Set-Cookie", "a=b")
    with pytest.raises(ServiceError, match="follows from what the method returns"):
        AnswerHead().set_header("content-type", "text/html")
    with pytest.raises(ServiceError, match="must be text, got int"):
        AnswerHead().set_header("x-count", 3)
    with pytest.raises(ServiceError, match=r"urllib\.parse\.quote"):
        AnswerHead().set_header("x-name", "日本")


def test_the_last_of_a_name_counts_and_cookies_stand_beside_each_other():
    head = AnswerHead()
    head.set_header("X-A", "1")
    head.set_cookie("c", "1", **SAFE)
    head.set_header("x-a", " 2 ")
    head.set_cookie("d", "1", **SAFE)
    head.set_cookie("c", "2", **{**SAFE, "max_age_s": 60})
    assert head.fields == (
        ("x-a", "2"),
        ("set-cookie", "c=2; Path=/; Max-Age=60; Secure; HttpOnly; SameSite=Lax"),
        ("set-cookie", "d=1; Path=/; Secure; HttpOnly; SameSite=Lax"),
    )


def test_a_head_has_a_bound():
    head = AnswerHead()
    for number in range(64):
        head.set_header(f"x-{number}", "v")
    head.set_header("x-0", "w")
    with pytest.raises(ServiceError, match="may be 64 of 16384 bytes together, and with 'x-64' there would be 65"):
        head.set_header("x-64", "v")
    with pytest.raises(ServiceError, match="put it into the body"):
        AnswerHead().set_header("x", "v" * 20_000)
    for _ in range(20):
        head.set_header("x-0", "v" * 10_000)  # replaced, not added


@pytest.mark.parametrize("status", [200, 201, 204, 302, 304, 404, 418, 499])
def test_statuses(status):
    assert checked_status(status) == status


@pytest.mark.parametrize("status", [100, 199, 205, 500, 503, 600, 200.0, "200", None, True])
def test_statuses_that_are_none(status):
    with pytest.raises(ServiceError, match="whole number from 200 to 499"):
        checked_status(status)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a b"}, "must be a token"),
        ({"name": "a;b"}, "must be a token"),
        ({"value": "a;b"}, "printable ASCII"),
        ({"value": "a b"}, "base64"),
        ({"value": "a\r\nb"}, "printable ASCII"),
        ({"value": 5}, "got int"),
        ({"value": "v" * 4096}, "browsers keep 4096"),
        ({"path": "there"}, "must begin with '/'"),
        ({"path": "/a;Domain=evil"}, "without ';'"),
        ({"domain": "a;b"}, "host name"),
        ({"domain": ""}, "host name"),
        ({"same_site": "None"}, "'strict', 'lax' or 'none'"),
        ({"same_site": "none", "secure": False}, "must be secure"),
        ({"name": "__Secure-a", "secure": False}, "must be secure"),
        ({"name": "__Host-a", "path": "/x"}, "of path '/'"),
        ({"name": "__Host-a", "domain": "example.org"}, "without domain"),
        ({"max_age_s": -1}, "whole number of seconds"),
        ({"max_age_s": 1.5}, "whole number of seconds"),
        ({"max_age_s": 10**9}, "400 days"),
    ],
)
def test_cookies_that_no_browser_would_keep(change, message):
    with pytest.raises(ServiceError, match=message):
        cookie_text(**{"name": "a", "value": "b", **SAFE, **change})


def test_a_cookie_that_is_to_be_forgotten():
    text = cookie_text("a", "", **{**SAFE, "max_age_s": 0})
    assert text.startswith("a=; Path=/; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT")


def test_cookies_of_a_client():
    assert read_cookies('a=1; b="two"; a=3; =x; c; d==; e f=1;; g=') == {"a": "1", "b": "two", "d": "=", "g": ""}
    assert read_cookies("") == {}


@given(st.text(alphabet=st.characters(max_codepoint=255), max_size=200))
def test_any_cookie_header_can_be_read(header):
    for name, value in read_cookies(header).items():
        assert name
        assert ";" not in value

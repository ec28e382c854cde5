import pytest

from trilith.errors import InvalidConfig
from trilith.measure.load import Body, Target, prepare
from trilith.measure.load.example import example_in


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("http://127.0.0.1:8000/read", "127.0.0.1:8000", "/read"),
        ("127.0.0.1:8000", "127.0.0.1:8000", "/"),
        ("http://host/a/b?c=d", "host", "/a/b?c=d"),
        ("https://host:8443", "host:8443", "/"),
        ("http://[::1]:8000/x", "[::1]:8000", "/x"),
    ],
)
def test_urls(url, authority, path):
    target = Target.parse(url)
    assert (target.authority, target.path) == (authority, path)


@pytest.mark.parametrize("url", ["ftp://host/x", "http://", "http://host:99999/", "http://host/a b", "http://host/é"])
def test_what_is_not_an_endpoint_is_refused(url):
    with pytest.raises(InvalidConfig, match="URL"):
        Target.parse(url)


def test_a_request_is_rendered_once_with_and_without_the_timeline_header():
    body = Body(content=b"{}", content_type="application/json")
    request = prepare(Target.parse("http://h:1/p"), "POST", body, [("X-Key", "v"), ("Content-Type", "text/plain")])
    (plain,), (sampled,) = request.plain, request.sampled
    head, _, content = plain.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /p HTTP/1.1"
    assert {b"host: h:1", b"content-length: 2", b"x-key: v", b"content-type: text/plain"} <= set(lines)
    assert content == b"{}"
    assert request.size_bytes == len(plain)
    assert b"\r\ntrilith-timeline: 1\r\n" in sampled
    assert b"trilith-timeline" not in plain


def test_a_large_body_is_not_copied_into_both_forms():
    body = Body(content=bytes(1 << 20), content_type="")
    request = prepare(Target.parse("http://h/"), "POST", body)
    assert request.plain[-1] is body.content
    assert request.sampled[-1] is body.content


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", []),
        ("GE T", []),
        ("GET", [("a b", "c")]),
        ("GET", [("a", "b\r\nc: d")]),
        ("GET", [("Content-Length", "3")]),
        ("GET", [("a", "\u20ac")]),
    ],
)
def test_requests_that_cannot_be_sent_are_refused(method, headers):
    with pytest.raises(InvalidConfig):
        prepare(Target.parse("http://h/"), method, None, headers)


def test_the_content_type_comes_from_the_extension(tmp_path):
    for name, expected in [("a.json", "application/json"), ("a.png", "image/png"), ("a.weird", "octet-stream")]:
        (tmp_path / name).write_bytes(b"x")
        assert Body.read(tmp_path / name).content_type.endswith(expected)
    assert Body.read(tmp_path / "a.png", "text/x").content_type == "text/x"
    with pytest.raises(InvalidConfig, match="missing"):
        Body.read(tmp_path / "missing")


@pytest.mark.parametrize(
    ("media", "expected"),
    [
        ({"example": {"x": 1}}, b'{"x":1}'),
        ({"examples": {"one": {"value": [1]}}}, b"[1]"),
        ({"schema": {"example": 1}}, b"1"),
        ({"schema": {"examples": ["a"]}}, b'"a"'),
        ({"schema": {}}, None),
        (
            {
                "schema": {
                    "type": "object",
                    "properties": {"x": {"type": "array", "items": {"type": "number"}}, "y": {}},
                    "required": ["x"],
                }
            },
            b'{"x":[1.0]}',
        ),
        ({"schema": {"$ref": "#/components/schemas/In"}}, b'{"n":3,"t":"a","o":null}'),
        ({"schema": {"type": "array", "minItems": 2, "items": {"type": "boolean"}}}, b"[true,true]"),
        ({}, None),
    ],
)
def test_the_example_of_an_openapi_document(media, expected):
    document = {
        "paths": {"/p": {"post": {"requestBody": {"content": {"application/json": media}}}}},
        "components": {
            "schemas": {
                "In": {
                    "type": "object",
                    "required": ["n", "t", "o"],
                    "properties": {
                        "n": {"type": "integer", "minimum": 3},
                        "t": {"enum": ["a", "b"]},
                        "o": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/In"}]},
                    },
                }
            }
        },
    }
    found = example_in(document, "/p")
    assert (found.content if found else None) == expected
    assert example_in(document, "/other") is None
    assert example_in([], "/p") is None
    bare = {"paths": {"/p": {"post": {}}, "/both": {"post": {}, "get": {}}, "/got": {"get": {}}}}
    assert example_in(bare, "/p") == Body(content=b"", content_type="")
    assert example_in(bare, "/both") is example_in(bare, "/got") is None


def test_a_schema_that_holds_itself_ends():
    schema = {"type": "object", "required": ["self"], "properties": {"self": {"$ref": "#/components/schemas/In"}}}
    media = {"schema": {"$ref": "#/components/schemas/In"}}
    document = {
        "paths": {"/p": {"post": {"requestBody": {"content": {"application/json": media}}}}},
        "components": {"schemas": {"In": schema}},
    }
    assert example_in(document, "/p").content.startswith(b'{"self":')


BASE64 = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}


@pytest.mark.parametrize(
    ("content", "takes"),
    [
        ({"application/json": {"schema": BASE64}}, "an image"),
        ({"application/json": {"schema": {"type": "array", "items": BASE64}}}, "an image"),
        ({"application/json": {"schema": {**BASE64, "contentMediaType": "application/octet-stream"}}}, "a file"),
        ({"application/json": {"schema": {"type": "string", "format": "binary"}}}, "a file"),
        ({"image/*": {}, "multipart/form-data": {}}, "an image"),
        ({"application/octet-stream": {}, "multipart/form-data": {}}, "a file"),
        ({"text/csv": {}, "text/plain": {}}, "text/csv or text/plain"),
    ],
)
def test_an_image_or_a_file_is_not_made_up(content, takes):
    document = {"paths": {"/p": {"post": {"requestBody": {"content": content}}}}}
    with pytest.raises(InvalidConfig, match=f"^give --data FILE: POST /p takes {takes}$"):
        example_in(document, "/p")


def test_an_image_that_may_be_left_out_and_one_that_is_given_as_an_example():
    schema = {"type": "object", "properties": {"image": BASE64}}
    of = lambda media: {"paths": {"/p": {"post": {"requestBody": {"content": {"application/json": media}}}}}}  # noqa: E731
    assert example_in(of({"schema": schema}), "/p").content == b"{}"
    assert example_in(of({"schema": schema, "example": {"image": "aGk="}}), "/p").content == b'{"image":"aGk="}'

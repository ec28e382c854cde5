import pytest

from trilith.errors import InvalidConfig
from trilith.measure.load.grpc_target import GrpcTarget, is_grpc, prepare_grpc
from trilith.wire.http2.header_decoder import HeaderDecoder


def test_a_method_is_read():
    target = GrpcTarget.parse("grpc://[::1]:8001/a.b.Ocr/Read")
    assert (target.host, target.port, target.tls) == ("::1", 8001, False)
    assert (target.service, target.method) == ("a.b.Ocr", "Read")
    assert target.url == "grpc://[::1]:8001/a.b.Ocr/Read"
    assert GrpcTarget.parse("grpcs://host").port == 443
    assert is_grpc("grpc://h")
    assert not is_grpc("http://h/grpc://")


@pytest.mark.parametrize("url", ["grpc://", "http://h/a.B/C", "grpc://h/B", "grpc://h/a/b/c", "grpc://h:x/a.B/C",
                                 "grpc://h/a.B/C?d", "grpc://h/a b/C"])  # fmt: skip
def test_what_is_no_method_is_refused(url):
    with pytest.raises(InvalidConfig, match="URL"):
        GrpcTarget.parse(url)


def test_a_call_is_rendered_once_for_all_connections():
    target = GrpcTarget.parse("grpc://h:1/a.B/C")
    request = prepare_grpc(target, [b"xy", b"z"], [("X-Key", "v")])
    assert request.message == b"\0\0\0\0\2xy\0\0\0\0\1z"
    fields = dict(HeaderDecoder().decode(request.head.block).fields)
    assert fields[b":path"] == b"/a.B/C"
    assert fields[b"x-key"] == b"v"
    assert dict(HeaderDecoder().decode(request.sampled.block).fields)[b"trilith-timeline"] == b"1"


@pytest.mark.parametrize("header", [("te", "x"), (":path", "/"), ("a b", "c"), ("a", "ü"), ("a", "x\ny")])
def test_metadata_that_cannot_be_sent_is_refused(header):
    with pytest.raises(InvalidConfig, match="--header"):
        prepare_grpc(GrpcTarget.parse("grpc://h:1/a.B/C"), [b""], [header])

"""Which protocol a connection speaks, told from its first octets, however they are cut."""

import pytest

from trilith.net.http1.http2_connection import HttpOverHttp2
from trilith.wire.http2 import frames as f

HELLO = f.PREFACE + f.settings_frame([])


def answer(request):
    request.respond(200, b"x")


@pytest.mark.parametrize("cut", range(1, 30))
def test_the_preface_of_http2_in_pieces(connect, cut):
    client = connect(answer)
    protocols = []
    client.transport.set_protocol = protocols.append
    for piece in (HELLO[:cut], HELLO[cut:]):
        (protocols[0].data_received if protocols else client.send)(piece)
    [protocol] = protocols
    assert isinstance(protocol, HttpOverHttp2)
    assert list(client.state.connections) == [protocol]
    assert client.state.counters.connections_accepted_total == 1
    assert client.state.counters.bytes_received == len(HELLO)
    assert client.transport.written[3] == f.SETTINGS


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"PATCH", b"GET", b"PRI"])
@pytest.mark.parametrize("cut", [1, 2, 3, 8])
def test_everything_else_is_http1(connect, method, cut):
    client = connect(answer)
    request = b"%b / HTTP/1.1\r\nHost: a\r\n\r\n" % method
    client.send(request[:cut])
    client.send(request[cut:])
    assert client.statuses in ([200], [400], [501])
    assert (client.statuses == [200]) == (method != b"PRI")
    assert client.state.counters.bytes_received == len(request)

"""Streaming methods over websockets, through a real server, with the clients of the library `websockets`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading

import httpx
import numpy as np
import pytest
from live_server import APPS
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import trilith
from trilith.errors import DeadlineExceeded, InvalidInput, ReplicaLost, ServiceError, Unauthenticated
from trilith.orchestration import new_key

HANDSHAKE = (
    b"GET /said HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.fixture(scope="module")
def sockets(serve_module):
    """One server for the tests that do no harm."""
    return serve_module(f"{APPS}/sockets.py:Sockets", "--max-body-mb", "2")


@pytest.fixture(scope="module", params=["Sockets", "Behind"])
def either(request, serve_module):
    """As above, without and with middleware."""
    if request.param == "Sockets":
        return request.getfixturevalue("sockets")
    return serve_module(f"{APPS}/sockets.py:Behind", "--max-body-mb", "2")


@contextlib.contextmanager
def opened(server, path, **options):
    with connect(f"ws://127.0.0.1:{server.http}{path}", proxy=None, max_size=None, **options) as found:
        yield found


def items(client):
    """All that comes, and how it ends."""
    found = []
    try:
        while True:
            message = client.recv(timeout=20)
            found.append(json.loads(message) if isinstance(message, str) else message)
    except ConnectionClosed:
        return found, client.protocol.close_code, client.protocol.close_reason


def refused(server, path, **options):
    with pytest.raises(InvalidStatus) as caught, opened(server, path, **options):
        raise AssertionError("it was let in")
    answer = caught.value.response
    return answer.status_code, json.loads(answer.body)["error"]


def seen(server, name):
    return server.post("/seen")[1][name]


def test_items_go_both_ways_and_an_empty_message_ends_them(either):
    for path in ("/said", "/said_plainly"):
        with opened(either, path) as client:
            for word in ("one", "zwölf", ""):
                client.send(json.dumps(word))
                assert json.loads(client.recv(timeout=20)) == word
            client.send("")
            assert items(client) == ([], 1000, "")


def test_what_is_taken_beside_a_stream_stands_in_the_query(either):
    with opened(either, "/said?mark=!") as client:
        client.send('"a"')
        assert client.recv(timeout=20) == '"a!"'


def test_a_method_that_only_takes_answers_once(either):
    with opened(either, "/joined") as client:
        for word in ("a", "b", "c"):
            client.send(json.dumps(word))
        client.send("")
        assert items(client) == (["abc"], 1000, "")
    with opened(either, "/packed") as client:
        client.send('"a"')
        client.send("")
        assert items(client) == ([b"a"], 1000, "")


def test_arguments_come_from_the_query_or_the_first_message(either):
    expected = [{"a": 1}, {"b": 2}]
    with opened(either, "/spread") as client:
        client.send(json.dumps({"items": expected, "times": 2}))
        assert items(client) == (expected * 2, 1000, "")
    with opened(either, '/spread?items=[{"a":1}]&times=3') as client:
        assert items(client) == ([{"a": 1}] * 3, 1000, "")
    with opened(either, "/sliced") as client:
        client.send(b"abcde")  # a raw body
        assert items(client) == ([b"ab", b"cd", b"e"], 1000, "")
    with opened(either, "/quiet") as client:
        assert int(client.recv(timeout=20)) in either.replica_pids(either.status()["services"][0]["name"])
    with opened(either, "/spread") as client:
        client.send('{"items": 5}')
        [[told], code, reason] = items(client)
        assert told["error"]["code"] == "invalid_input"
        assert code == 1008
        assert told["error"]["message"].startswith(reason.encode()[:100].decode(errors="ignore"))
    with opened(either, "/spread?times=2&nothing=3") as client:
        [[told], code, _] = items(client)
        assert (told["error"]["code"], code) == ("invalid_input", 1008)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 1000, 65_535, 65_536, 1_000_000, 2 << 20])
def test_items_of_any_size_come_back_as_they_were(sockets, size):
    content = os.urandom(size // 2) + b"a" * (size - size // 2)
    for compression in ("deflate", None):
        with opened(sockets, "/echo", compression=compression) as client:
            client.send(content)
            assert client.recv(timeout=20) == content
            cuts = [content[at : at + 1 + size // 7] for at in range(0, size, 1 + size // 7)]
            client.send(cuts or [b""])  # in fragments
            assert client.recv(timeout=20) == content


def test_an_array_comes_as_npy(either):
    saved = io.BytesIO()
    np.save(saved, np.arange(12.0).reshape(3, 4))
    with opened(either, "/sums") as client:
        client.send(saved.getvalue())
        client.send("[[1, 2], [3, 4.5]]")
        client.send("")
        assert items(client) == ([66.0, 10.5], 1000, "")


def test_ten_thousand_messages(sockets):
    with opened(sockets, "/said") as client:

        def send():
            for number in range(10_000):
                client.send(f'"{number}"')
            client.send("")

        sending = threading.Thread(target=send)
        sending.start()
        assert items(client) == ([str(number) for number in range(10_000)], 1000, "")
        sending.join(20)


def test_a_client_that_sends_all_before_it_reads(either):
    with opened(either, "/counted") as client:
        for number in range(10_000):
            client.send(f'"{number}"')
        client.send("")
        assert items(client) == ([10_000], 1000, "")


def test_a_failure_midway_is_told_and_closes(either):
    with opened(either, "/broken") as client:
        client.send('"fine"')
        client.send('"stop"')
        [[first, told], code, reason] = items(client)
        assert first == "fine"
        assert told["error"]["code"] == "invalid_input"
        assert told["error"]["message"] == reason == "that word is not said"
        assert told["error"]["request_id"] == client.response.headers["x-request-id"]
        assert code == 1008
    with opened(either, "/broken") as client:
        client.send('"bug"')
        [[told], code, reason] = items(client)
        assert (told["error"]["code"], code) == ("service_failed", 1011)
        assert "42" not in reason


def test_what_is_no_item_is_refused(either):
    with opened(either, "/said") as client:
        client.send('"a"')
        client.send("5")
        [[first, told], code, _] = items(client)
        assert (first, told["error"]["code"], code) == ("a", "invalid_input", 1008)
        assert "item 2" in told["error"]["message"]
    with opened(either, "/said") as client:
        client.send(b"\x00\x01")
        [[told], code, _] = items(client)
        assert (told["error"]["code"], code) == ("unsupported_media_type", 1003)
    with opened(either, "/counted") as client:
        client.send("")
        client.send('"late"')
        found, code, _ = items(client)
        assert found == [0] or (found[0]["error"]["code"], code) == ("invalid_input", 1008)
    with opened(either, "/quiet") as client:
        client.recv(timeout=20)
        client.send('"what?"')
        [[told], code, _] = items(client)
        assert "takes no stream" in told["error"]["message"]


def test_refusals_before_the_handshake_have_their_status(either):
    assert refused(either, "/nowhere")[0] == 404
    status, error = refused(either, "/seen")
    assert status == 405
    assert "POST" in error["message"]
    answer = httpx.get(f"http://127.0.0.1:{either.http}/said")
    assert (answer.status_code, "websocket" in answer.text) == (405, True)
    status, error = refused(either, "/said", additional_headers={"trilith-timeout-ms": "x"})
    assert (status, error["code"]) == (400, "invalid_input")


def test_a_page_of_another_origin_is_refused(sockets, serve):
    assert refused(sockets, "/said", origin="https://evil.example")[0] == 403
    assert refused(sockets, "/said", origin=f"http://127.0.0.1:{sockets.http + 1}")[0] == 403
    assert refused(sockets, "/said", origin="null")[0] == 403
    with opened(sockets, "/said", origin=f"http://127.0.0.1:{sockets.http}") as client:
        client.send("")
        assert items(client) == ([], 1000, "")
    server = serve(f"{APPS}/sockets.py:Sockets", "--cors-origin", "https://page.example")
    assert refused(server, "/said", origin="https://evil.example")[0] == 403
    with opened(server, "/said", origin="https://page.example") as client:
        assert client.response.headers["access-control-allow-origin"] == "https://page.example"
        client.send('"a"')
        assert client.recv(timeout=20) == '"a"'


def test_a_function_is_asked_who_the_client_is(tmp_path, serve):
    (tmp_path / "who.py").write_text(
        "import trilith\n"
        "from trilith.errors import Forbidden\n"
        "async def check(request):\n"
        "    if request.headers.get('x-name') != 'anna':\n"
        "        raise Forbidden('not you')\n"
        "    return trilith.Identity(name='anna')\n"
    )
    server = serve(f"{APPS}/sockets.py:Sockets", "--access", f"{tmp_path}/who.py:check", "--access-log")
    status, error = refused(server, "/said")
    assert (status, error["message"]) == (403, "not you")
    with opened(server, "/said", additional_headers={"x-name": "anna"}) as client:
        client.send('"a"')
        assert client.recv(timeout=20) == '"a"'
        client.send("")
        assert items(client) == ([], 1000, "")
    server.wait_line("GET /said 101")


def test_a_key_is_asked_for_and_its_limits_hold(tmp_path, serve):
    key, entry = new_key("one", scopes=["Sockets.said"], concurrency=1)
    path = tmp_path / "keys.yaml"
    path.write_text(f"public: []\nkeys:\n{entry}")
    server = serve(f"{APPS}/sockets.py:Sockets", "--api-keys", str(path))
    shown = {"additional_headers": {"authorization": f"Bearer {key}"}}
    assert refused(server, "/said")[0] == 401
    assert refused(server, "/joined", **shown)[0] == 403
    with opened(server, "/said", **shown) as client:
        client.send('"a"')
        assert client.recv(timeout=20) == '"a"'
        assert refused(server, "/said", **shown)[0] == 429
    with opened(server, "/said", **shown) as client:
        client.send('"a"')
        assert client.recv(timeout=20) == '"a"'


def test_the_method_sees_the_headers_of_the_handshake(either):
    with opened(either, "/circumstances", additional_headers={"x-note": "hello"}) as client:
        client.send('"x-"')
        assert json.loads(client.recv(timeout=20)) == {"x-note": "hello"}
        client.send('"sec-"')
        assert json.loads(client.recv(timeout=20)) == {}


def test_its_timeline_is_kept(sockets):
    for path, message in (("/said", '"a"'), ("/spread", '{"items": [{"a": 1}]}')):
        with opened(sockets, path, additional_headers={"trilith-timeline": "1"}) as client:
            place = client.response.headers["trilith-timeline-at"]
            client.send(message)
            client.recv(timeout=20)
            if path == "/said":
                client.send("")
            assert items(client) == ([], 1000, "")
        status, timeline = sockets.get(place)
        assert status == 200
        assert b"first_item" in timeline


def test_a_silent_client_is_asked_for_a_sign_of_life(serve):
    server = serve(f"{APPS}/sockets.py:Sockets", "--stream-keep-alive-s", "0.5")
    with socket.create_connection(("127.0.0.1", server.http), 20) as client:
        client.sendall(HANDSHAKE)
        came = b""
        while not came.endswith(b"\x89\x00"):
            piece = client.recv(65536)
            assert piece, came
            came += piece


def test_silence_between_items_is_bounded(serve, tmp_path):
    (tmp_path / "short.py").write_text(
        "from collections.abc import AsyncIterator\n"
        "import trilith\n"
        "@trilith.service(timeout_s=0.3)\n"
        "class Short:\n"
        "    @trilith.api\n"
        "    async def said(self, words: AsyncIterator[str]) -> AsyncIterator[str]:\n"
        "        async for word in words:\n"
        "            yield word\n"
        "    @trilith.api\n"
        "    async def told(self, text: str) -> AsyncIterator[str]:\n"
        "        yield text\n"
    )
    server = serve(tmp_path / "short.py:Short")
    for path in ("/said", "/told"):
        with opened(server, path) as client:
            [[told], code, _] = items(client)
            assert (told["error"]["code"], code) == ("deadline_exceeded", 1011)


def test_messages_that_are_too_long_or_inflate_too_much(sockets):
    with opened(sockets, "/echo", compression=None) as client:
        with contextlib.suppress(ConnectionClosed):
            client.send(b"x" * ((2 << 20) + 1))
        found, code, reason = items(client)
        assert (found, code) == ([], 1009)
        assert str(2 << 20) in reason
    with opened(sockets, "/echo", compression="deflate") as client:
        with contextlib.suppress(ConnectionClosed):
            client.send(b"\0" * 100_000_000)
        assert items(client)[1] == 1009


@pytest.mark.parametrize("way", ["close", "reset", "half", "close code"])
@pytest.mark.parametrize("path", ["/said", "/said_plainly", "/quiet", "/endless?size=10", "/stubborn"])
def test_a_client_that_goes_ends_the_work(sockets, path, way):
    begun, ended = seen(sockets, "begun"), seen(sockets, "ended")
    with opened(sockets, path, close_timeout=0.01) as client:
        if path in ("/said", "/said_plainly", "/stubborn"):
            client.send('"a"')
        client.recv(timeout=20)
        assert seen(sockets, "begun") == begun + 1
        assert seen(sockets, "ended") == ended
        if way == "close code":
            client.close(4000, "enough")
        elif way == "half":
            client.socket.shutdown(socket.SHUT_WR)
        elif way == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close_socket()
        else:
            client.close_socket()
        sockets.wait_until(lambda: seen(sockets, "ended") == ended + 1)


def test_a_client_that_goes_before_it_has_asked_is_forgotten(sockets):
    for sent in (b"", b"\x81", b"\x81\xff" + b"\0" * 20):
        with opened(sockets, "/spread") as client:
            client.socket.sendall(sent)
            client.close_socket()
    with opened(sockets, '/spread?items=[{"a":1}]') as client:
        assert items(client)[1] == 1000


def masked(opcode, payload, *, fin=True):
    """A frame of a client, with the mask that changes nothing."""
    return bytes(((0x80 if fin else 0) | opcode, 0x80 | len(payload))) + b"\0\0\0\0" + payload


MOMENTS = {
    "half a handshake": (HANDSHAKE[:60], b"", b""),
    "the handshake": (HANDSHAKE, b"", b""),
    "with an answer to it": (HANDSHAKE, b"101 Switching", b""),
    "half a head of a frame": (HANDSHAKE, b"101", masked(1, b'"a"')[:3]),
    "half a frame": (HANDSHAKE, b"101", masked(1, b'"a"')[:-1]),
    "half a message": (HANDSHAKE, b"101", masked(1, b'"', fin=False)),
    "with a message not looked at": (HANDSHAKE + masked(1, b'"a"'), b"101", b""),
    "with an answer": (HANDSHAKE + masked(1, b'"a"'), b'"a"', b""),
    "many messages": (HANDSHAKE, b"101", masked(1, b'"a"') * 5000),
    "behind the end of its items": (HANDSHAKE + masked(1, b'"a"') + masked(1, b""), b"101", b""),
    "behind the close of the server": (HANDSHAKE + masked(1, b""), b"\x88\x02\x03\xe8", b""),
    "behind its own close": (HANDSHAKE + masked(1, b'"a"'), b'"a"', masked(8, b"\x03\xe8")),
    "behind a breach": (HANDSHAKE + masked(1, b'"a"'), b'"a"', b"\xff\xff"),
}


@pytest.mark.parametrize("path", [b"/said", b"/said_plainly", b"/stubborn"])
def test_a_client_may_go_at_any_moment(sockets, path):
    for sent, awaited, more in MOMENTS.values():
        for reset in (False, True):
            with socket.create_connection(("127.0.0.1", sockets.http), 20) as client:
                client.sendall(sent.replace(b"/said", path))
                came = b""
                while awaited not in came:
                    piece = client.recv(65536)
                    assert piece, (awaited, came)
                    came += piece
                client.sendall(more)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sockets.wait_until(lambda: seen(sockets, "begun") == seen(sockets, "ended"))
    with opened(sockets, path.decode()) as client:
        client.send('"a"')
        assert client.recv(timeout=20) == '"a"'


def test_a_slow_reader_holds_its_own_producer_and_nobody_else(sockets):
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    small.connect(("127.0.0.1", sockets.http))
    with opened(sockets, "/endless?size=10000", max_queue=1, compression=None, sock=small, close_timeout=0.1) as slow:
        slow.recv(timeout=20)
        made = [seen(sockets, "made")]

        def stands():
            made.append(seen(sockets, "made"))
            return made[-1] == made[-2]

        sockets.wait_until(stands)
        with opened(sockets, "/said") as other:
            for _ in range(100):
                other.send('"a"')
                assert other.recv(timeout=20) == '"a"'
        assert seen(sockets, "made") == made[-1]
        for _ in range(2000):
            slow.recv(timeout=20)
        assert seen(sockets, "made") > made[-1]


def test_many_idle_sockets_cost_little(sockets):
    import psutil

    gateway = psutil.Process(sockets.gateway_pid())
    address = f"ws://127.0.0.1:{sockets.http}/spread"

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(20):  # what is made once
                await stack.enter_async_context(connect_async(address, proxy=None))
            before = gateway.memory_info().rss
            for _ in range(200):
                await stack.enter_async_context(connect_async(address, proxy=None))
            return (gateway.memory_info().rss - before) / 200

    assert asyncio.run(main()) < 40_000


def test_a_replica_that_dies_midway_is_told(serve):
    server = serve(f"{APPS}/sockets.py:Sockets")
    with opened(server, "/said") as client:
        client.send('"a"')
        assert client.recv(timeout=20) == '"a"'
        [pid] = server.replica_pids("Sockets")
        os.kill(pid, signal.SIGKILL)
        [[told], code, reason] = items(client)
        assert (told["error"]["code"], code) == ("replica_lost", 1011)
        assert reason
    server.wait_until(lambda: server.replica_pids("Sockets") not in ([], [pid]))
    with opened(server, "/said") as client:
        client.send('"a"')
        assert client.recv(timeout=20) == '"a"'


def test_a_server_that_stops_lets_answers_end_and_says_that_it_goes(serve):
    server = serve(f"{APPS}/sockets.py:Sockets", "--drain-timeout-s", "2")
    with (
        opened(server, "/said") as chat,
        opened(server, "/joined") as taking,
        opened(server, "/spread") as asking,
        opened(server, "/quiet") as quiet,
    ):
        chat.send('"a"')
        assert chat.recv(timeout=20) == '"a"'
        quiet.recv(timeout=20)
        taking.send('"x"')
        server.process.send_signal(signal.SIGTERM)
        assert items(chat) == ([], 1001, "the server is stopping")
        assert items(asking) == ([], 1001, "the server is stopping")
        taking.send('"y"')
        taking.send("")
        assert items(taking) == (["xy"], 1000, "")
        assert items(quiet)[1] == 1001  # when the time is over
    assert server.process.wait(20) == 0


def test_a_full_server_refuses_before_the_handshake(serve, tmp_path):
    (tmp_path / "full.py").write_text(
        "from collections.abc import AsyncIterator\n"
        "import trilith\n"
        "@trilith.service(concurrency=1, max_waiting=1)\n"
        "class Full:\n"
        "    @trilith.api\n"
        "    async def said(self, words: AsyncIterator[str]) -> AsyncIterator[str]:\n"
        "        async for word in words:\n"
        "            yield word\n"
    )
    server = serve(tmp_path / "full.py:Full")
    with opened(server, "/said") as first:
        first.send('"a"')
        assert first.recv(timeout=20) == '"a"'

        # Of two more one waits, and one is refused at once, whichever came first.
        asking = [socket.create_connection(("127.0.0.1", server.http), 20) for _ in range(2)]
        for each in asking:
            each.sendall(HANDSHAKE)
        [refused_one], _, _ = select.select(asking, [], [], 20)
        assert refused_one.recv(65536).startswith((b"HTTP/1.1 429", b"HTTP/1.1 503"))
        [waiting_one] = [each for each in asking if each is not refused_one]
        first.send("")
        assert waiting_one.recv(65536).startswith(b"HTTP/1.1 101")
        for each in asking:
            each.close()


def test_the_client_talks_over_a_websocket(sockets):
    address = f"http://127.0.0.1:{sockets.http}"
    with trilith.client(address, websockets=True) as client:
        assert list(client.said(["a", "zwölf", ""], mark="!")) == ["a!", "zwölf!", "!"]
        assert list(client.said([])) == []
        parts = [b"", b"ab", b"c" * 300_000]
        assert list(client.echo(parts)) == parts  # each by itself
        assert list(client.said(str(number) for number in range(3000))) == [str(number) for number in range(3000)]
        found = []
        with pytest.raises(InvalidInput, match="that word is not said"):
            found.extend(client.broken(["fine", "stop", "more"]))
        with pytest.raises(ServiceError):
            list(client.broken(["bug"]))
        with pytest.raises(InvalidInput, match="item 1"):
            list(client.said([5]))
        begun = seen(sockets, "begun")
        items_of = client.said(iter(lambda: "again", None))
        assert next(items_of) == "again"
        items_of.close()
        assert seen(sockets, "begun") == begun + 1
        sockets.wait_until(lambda: seen(sockets, "ended") == seen(sockets, "begun"))
        assert client.joined(["a", "b"]) == "ab"  # as ever

    async def main():
        async with trilith.client(address, websockets=True, asynchronous=True) as client:

            async def words():
                for word in ("a", "b"):
                    yield word

            assert [word async for word in client.said(words())] == ["a", "b"]

            async def no_words():
                yield "a"
                raise ValueError("no more words")

            with pytest.raises(ValueError, match="no more words"):
                assert [word async for word in client.said(no_words())]

            async def silence():
                await asyncio.sleep(60)
                yield "never"

            with pytest.raises(DeadlineExceeded):
                assert [word async for word in client.with_timeout(0.3).said(silence())]

    asyncio.run(main())


def test_the_client_is_told_why_there_is_no_websocket(tmp_path, serve):
    key, entry = new_key("one", scopes=["*"])
    path = tmp_path / "keys.yaml"
    path.write_text(f"public: [/openapi.json]\nkeys:\n{entry}")
    server = serve(f"{APPS}/sockets.py:Sockets", "--api-keys", str(path))
    address = f"http://127.0.0.1:{server.http}"
    with trilith.client(address, websockets=True) as client, pytest.raises(Unauthenticated):
        list(client.said(["a"]))
    with trilith.client(address, websockets=True, headers={"authorization": f"Bearer {key}"}) as client:
        assert list(client.said(["a"])) == ["a"]
        words = client.said(iter(lambda: "again", None))
        assert next(words) == "again"
        [pid] = server.replica_pids("Sockets")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ReplicaLost):
            list(words)


def test_over_tls(serve, tmp_path):
    pytest.importorskip("cryptography")
    from test_serve_tls import _certificate

    certificate, key = _certificate(tmp_path)
    options = ("--tls-certificate", str(certificate), "--tls-key", str(key), "--metrics-port", "off")
    server = serve(f"{APPS}/sockets.py:Sockets", *options, ready=False)
    port = int(server.wait_line("ready: https://").split("https://", 1)[1].split()[0].rsplit(":", 1)[1])
    context = ssl.create_default_context(cafile=str(certificate))
    with connect(f"wss://localhost:{port}/echo", proxy=None, ssl=context) as client:
        for size in (1, 70_000, 1_000_000):
            client.send(b"x" * size)
            assert client.recv(timeout=20) == b"x" * size
        client.send("")
        assert items(client) == ([], 1000, "")
    with trilith.client(f"https://localhost:{port}", tls_ca=str(certificate), websockets=True) as client:
        assert list(client.said(["a"])) == ["a"]


NODE = """
const socket = new WebSocket(process.argv[1]);
const found = [];
socket.binaryType = "arraybuffer";
socket.onopen = () => { for (const size of [0, 10, 70000]) socket.send(new Uint8Array(size)); socket.send(""); };
socket.onmessage = ({ data }) => found.push(data.byteLength);
socket.onclose = ({ code, wasClean }) => console.log(JSON.stringify([found, code, wasClean]));
"""


@pytest.mark.peer
def test_with_the_websocket_of_node(sockets):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version[1:].split(".")[0]) < 20:
        pytest.skip(f"node {version} has no WebSocket")
    command = [node, "--experimental-websocket", "-e", NODE, f"ws://127.0.0.1:{sockets.http}/echo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == [[0, 10, 70000], 1000, True]

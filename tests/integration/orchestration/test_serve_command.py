"""`cmd=`: a server of any kind behind the gateway, watched and restarted as a replica is."""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import threading
import time

import httpx
import psutil
import pytest
import websockets.exceptions
import websockets.sync.client
from live_server import APPS

COMMANDS = APPS / "command.py"


def process_of(server, service="Echo"):
    """The process of the one replica, and its keeper."""
    [replica] = server.replica_pids(service)
    [keeper] = psutil.Process(replica).children()
    [process] = keeper.children()
    return process


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files in it say how the process is."""
    return tmp_path_factory.mktemp("echo")


@pytest.fixture(scope="module")
def echo(serve_module, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECHO_FOLDER", str(folder))
        return serve_module(f"{COMMANDS}:Echo")


@pytest.fixture(scope="module")
def mortal(serve_module):
    """For tests that kill, and leave when it serves again."""
    return serve_module(f"{COMMANDS}:Echo")


def serves_again(server, dead):
    """Waits until another process answers."""
    psutil.wait_procs([dead], timeout=20)
    assert not dead.is_running() or dead.status() == psutil.STATUS_ZOMBIE

    def is_another():
        try:
            return process_of(server).pid != dead.pid
        except (ValueError, psutil.Error):  # the replica of the dead one is still listed
            return False

    server.wait_until(is_another)
    server.wait_until(lambda: asked(server, "GET", "/x")[0].status == 200)


def asked(server, method, path, body=None, headers=None):
    with server.connection() as connection:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response, response.read()


def test_what_is_asked_arrives_as_it_came_and_so_does_the_answer(echo):
    response, body = asked(
        echo, "PUT", "/some/th%2Fing?a=1&a=2%20", b"abc", {"X-Mine": "1", "connection": "x-drop", "x-drop": "1"}
    )
    got = json.loads(body)
    assert (got["method"], got["target"], got["size"]) == ("PUT", "/some/th%2Fing?a=1&a=2%20", 3)
    headers = dict(got["headers"])
    assert headers["host"] == f"127.0.0.1:{echo.http}"
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert headers["x-forwarded-proto"] == "http"
    assert headers["x-mine"] == "1"
    assert "x-drop" not in headers
    assert headers["x-request-id"] == response.headers["x-request-id"]
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert response.headers["x-own"] == "yes"
    assert "keep-alive" not in response.headers
    assert "trilith-not-begun" not in response.headers  # it would be the server's word


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PATCH", "OPTIONS"])
def test_every_method_goes(echo, method):
    response, body = asked(echo, method, "/x")
    assert (response.status, json.loads(body)["method"]) == (200, method)


def test_head_has_a_length_and_no_body(echo):
    response, body = asked(echo, "HEAD", "/x")
    assert (response.status, body) == (200, b"")
    assert int(response.headers["content-length"]) > 0


def test_methods_stand_beside_it_and_may_ask_it(echo):
    status, answer = echo.post("/target", {"path": "from-a-method"})
    assert status == 200
    assert json.loads(answer)["target"] == "/from-a-method"


def test_an_upload_goes_through_in_pieces(echo):
    body = os.urandom(24 << 20)
    chunks = (body[at : at + 100_000] for at in range(0, len(body), 100_000))
    for given in (body, chunks):
        _, answer = asked(echo, "POST", "/upload", given)
        assert json.loads(answer)["sha256"] == hashlib.sha256(body).hexdigest()


def test_events_arrive_when_they_are_made(echo, tmp_path):
    with echo.connection() as connection:
        connection.request("GET", f"/stream?n=3&gate={tmp_path}/g")
        (tmp_path / "g0").touch()
        response = connection.getresponse()
        assert response.headers["content-type"] == "text/event-stream"
        for number in range(3):
            (tmp_path / f"g{number}").touch()
            assert response.readline() == b"data: %d\n" % number
            assert response.readline() == b"\n"
        assert response.read() == b""


def test_both_ways_go_at_once(echo):
    with contextlib.closing(socket.create_connection(("127.0.0.1", echo.http), 20)) as raw:
        raw.sendall(b"POST /slowly HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        got = b""
        while b"3\n" not in got.partition(b"\r\n\r\n")[2]:
            got += raw.recv(4096)
        raw.sendall(b"2\r\nde\r\n0\r\n\r\n")
        while not got.endswith(b"0\r\n\r\n"):
            got += raw.recv(4096)
        assert b"2\n" in got


def test_an_answer_without_a_length_and_one_that_comes_early(echo):
    assert asked(echo, "GET", "/until/end")[1] == b"to the end"
    response, body = asked(echo, "POST", "/early", b"x" * 1000)
    assert (response.status, json.loads(body)) == (413, "too much")


def test_a_client_that_goes_is_seen_by_the_process(echo, tmp_path):
    left = tmp_path / "left"
    with contextlib.closing(socket.create_connection(("127.0.0.1", echo.http), 20)) as raw:
        raw.sendall(f"GET /endless?left={left} HTTP/1.1\r\nhost: h\r\n\r\n".encode())
        assert raw.recv(100)
    echo.wait_until(left.exists)


def test_a_client_that_does_not_read_holds_the_process_and_no_memory(echo, tmp_path):
    left = tmp_path / "left"
    gateway = psutil.Process(echo.gateway_pid())
    [replica] = echo.replica_pids("Echo")
    before = [psutil.Process(pid).memory_info().rss for pid in (gateway.pid, replica)]
    with contextlib.closing(socket.create_connection(("127.0.0.1", echo.http), 20)) as raw:
        raw.sendall(f"GET /endless?left={left}&size=1000000&pause=0 HTTP/1.1\r\nhost: h\r\n\r\n".encode())
        assert raw.recv(100)
        process = process_of(echo)
        sent = -1
        while sent != (sent := process.io_counters().write_chars):  # until it makes nothing more
            time.sleep(0.3)
        after = [psutil.Process(pid).memory_info().rss for pid in (gateway.pid, replica)]
    assert all(now - then < 40 << 20 for now, then in zip(after, before, strict=True))
    echo.wait_until(left.exists)


def test_what_is_no_http_is_an_error_of_ours(echo):
    response, body = asked(echo, "GET", "/nonsense")
    assert response.status == 500
    assert "no HTTP" in json.loads(body)["error"]["message"]


def test_the_log_has_what_it_prints(echo):
    asked(echo, "GET", "/print?text=hello-from-inside")
    assert "trilith.command.Echo: hello-from-inside" in echo.wait_line("hello-from-inside")


def test_a_path_of_its_own_is_stripped_and_methods_go_first(serve):
    server = serve(f"{COMMANDS}:Below")
    got = json.loads(asked(server, "GET", "/inner/echo/a?b=1")[1])
    assert got["target"] == "/a?b=1"
    assert dict(got["headers"])["x-forwarded-prefix"] == "/inner/echo"
    assert json.loads(asked(server, "GET", "/inner/echo")[1])["target"] == "/"
    assert server.post("/inner/echo/own") == (200, "the method")
    assert asked(server, "GET", "/inner")[0].status == 404
    pids = {json.loads(asked(server, "GET", "/inner/echo")[1])["pid"] for _ in range(60)}
    assert len(pids) == 2


def test_an_instance_says_the_command_and_has_its_address_when_it_is_entered(serve):
    server = serve(f"{COMMANDS}:Said")
    status, url = server.post("/url")
    assert status == 200
    assert process_of(server, "Said").cmdline()[-2:] == [url.rsplit(":", 1)[1], "said"]
    got = json.loads(asked(server, "GET", "/kept/a")[1])
    assert got["target"] == "/kept/a"  # as it says
    assert "x-forwarded-prefix" not in dict(got["headers"])


def test_a_command_that_is_no_good_ends_the_start_with_a_reason(serve):
    words = "its command was not ready within 0.5 s: nothing listens on port"
    server = serve(f"{COMMANDS}:Hanging", ready=False)
    assert server.process.wait(60) == 1
    assert words in server.wait_line(words)


def test_a_process_that_is_killed_is_replaced_and_what_it_held_is_answered(mortal, tmp_path):
    first = process_of(mortal)
    began = tmp_path / "began"
    with mortal.connection() as connection:
        connection.request("POST", f"/hang?began={began}", b"", {})
        mortal.wait_until(began.exists)
        first.kill()
        response = connection.getresponse()
        error = json.loads(response.read())["error"]
    assert (response.status, error["code"]) == (502, "replica_lost")
    assert "process of Echo" in error["message"]
    mortal.wait_line("its command has ended: it was killed by SIGKILL")
    serves_again(mortal, first)


@pytest.mark.parametrize("path", ["/die", "/half"])
def test_a_process_that_dies_of_a_request_costs_that_request(mortal, path):
    first = process_of(mortal)
    with mortal.connection() as connection:
        connection.request("POST", path, b"", {})
        if path == "/die":
            assert connection.getresponse().status == 502
        else:
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                connection.getresponse().read()
    serves_again(mortal, first)


@pytest.mark.parametrize("who", ["replica", "keeper"])
def test_nothing_is_left_of_it_when_another_one_is_killed(mortal, who):
    process = process_of(mortal)
    keeper = process.parent()
    (keeper if who == "keeper" else keeper.parent()).kill()
    serves_again(mortal, process)


def test_nothing_is_left_of_it_when_its_keeper_and_its_replica_are_killed(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("ECHO_CHILDREN", str(tmp_path / "children"))
    server = serve(f"{COMMANDS}:Echo")
    process = process_of(server)
    left = [process, *process.children(), *(psutil.Process(int(pid)) for pid in _listed(tmp_path / "children"))]
    keeper = process.parent()
    replica = keeper.parent()
    os.kill(replica.pid, signal.SIGSTOP)  # so that it ends nothing
    keeper.kill()
    replica.kill()
    serves_again(server, process)
    assert psutil.wait_procs(left, timeout=20)[1] == []


def _listed(path):
    return path.read_text().split()


def test_nothing_is_left_of_it_when_the_server_is_killed(serve):
    server = serve(f"{COMMANDS}:Echo")
    process = process_of(server)
    server.process.kill()
    psutil.wait_procs([process], timeout=20)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_server_that_stops_lets_it_finish(serve, tmp_path):
    server = serve(f"{COMMANDS}:Echo")
    process = process_of(server)
    with server.connection() as connection:
        connection.request("GET", f"/stream?n=2&gate={tmp_path}/g")
        (tmp_path / "g0").touch()
        response = connection.getresponse()
        assert response.readline() == b"data: 0\n"
        server.process.send_signal(signal.SIGINT)
        server.wait_line("stopping")
        (tmp_path / "g1").touch()
        assert response.read().endswith(b"data: 1\n\n")
    assert server.process.wait(20) == 0
    assert not process.is_running()


def test_what_the_process_says_of_its_health_is_readiness(echo, folder):
    (folder / "sick").touch()
    echo.wait_until(lambda: echo.get("/readyz")[0] == 503)
    assert "its command: GET /health has the status 503" in echo.wait_line("takes no calls any more")
    (folder / "sick").unlink()
    echo.wait_until(lambda: echo.get("/readyz")[0] == 200)
    assert asked(echo, "GET", "/x")[0].status == 200


def test_a_process_that_is_silent_is_replaced(echo, folder):
    process = process_of(echo)
    (folder / "deaf").touch()
    echo.wait_line("it does not answer within 0.5 s, 3 times in a row")
    (folder / "deaf").unlink()
    serves_again(echo, process)


def test_a_process_that_hangs_is_replaced_while_it_is_asked(echo, folder):
    process = process_of(echo)
    process.suspend()
    over = threading.Event()

    def asks():
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                asked(echo, "GET", "/x")

    clients = [threading.Thread(target=asks) for _ in range(3)]
    for client in clients:
        client.start()
    try:
        echo.wait_until(lambda: not process.is_running())
    finally:
        over.set()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
        for client in clients:
            client.join(30)
    serves_again(echo, process)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_server_of_node(serve):
    server = serve(f"{COMMANDS}:Node")
    assert asked(server, "POST", "/a?b=1", b"abc")[1] == b"POST /a?b=1 3"


@pytest.fixture(scope="module")
def chat(serve_module):
    return serve_module(f"{COMMANDS}:Chat")


def dialled(server, path="/room?x=1", **options):
    return websockets.sync.client.connect(f"ws://127.0.0.1:{server.http}{path}", **options)


def test_messages_go_either_way(chat):
    with dialled(chat, subprotocols=["other", "talk"], max_size=1 << 24) as socket:
        assert socket.subprotocol == "talk"
        for message in ("word", b"\x00\xff", "", "\N{SNOWMAN}" * 1000, os.urandom(3_000_000)):
            socket.send(message)
            assert socket.recv(timeout=20) == message
        socket.send("who")
        assert socket.recv(timeout=20) == "/room?x=1 talk 127.0.0.1"
        socket.send("many")
        assert [socket.recv(timeout=20) for _ in range(1000)] == [str(number) for number in range(1000)]


def test_a_close_goes_on_either_way(chat):
    with dialled(chat) as socket:
        socket.send("close")
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(timeout=20)
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4001, "as you wish")
    with dialled(chat) as socket:
        socket.close(4002, "mine")
    assert "closed 4002" in chat.wait_line("closed 4002")


def test_what_the_process_refuses_is_refused(chat):
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        dialled(chat, "/secret")
    assert refused.value.response.status_code == 403
    assert refused.value.response.body == b"not you"


def test_a_client_that_vanishes_and_a_process_that_dies(chat):
    with dialled(chat) as socket:
        socket.send("here")
        assert socket.recv(timeout=20) == "here"
        socket.socket.shutdown(2)
    chat.wait_line("closed 1001")
    first = process_of(chat, "Chat")
    with dialled(chat) as socket:
        socket.send("die")
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(timeout=20)
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1011
    psutil.wait_procs([first], timeout=20)


def test_what_comes_over_http2_goes_on_too(echo):
    with httpx.Client(http1=False, http2=True, base_url=f"http://127.0.0.1:{echo.http}", timeout=20) as client:
        got = client.post("/up", content=(b"x" * 1000 for _ in range(100))).json()
        assert (got["method"], got["size"]) == ("POST", 100_000)
        assert dict(got["headers"])["host"] == f"127.0.0.1:{echo.http}"
        assert client.get("/x?y=1").json()["target"] == "/x?y=1"
        for method in ("GET", "DELETE", "OPTIONS"):
            got = client.request(method, "/x", content=(b"hello" for _ in range(2))).json()
            assert (got["method"], got["size"]) == (method, 10)  # though no header spoke of it
        assert client.get("/stream?n=2").text == "data: 0\n\ndata: 1\n\n"


def test_an_answer_that_does_not_begin_in_time_is_given_up(echo, tmp_path):
    response, body = asked(echo, "GET", f"/hang?began={tmp_path}/b", headers={"trilith-timeout-ms": "300"})
    assert (response.status, json.loads(body)["error"]["code"]) == (504, "deadline_exceeded")


def test_middleware_stands_round_it(serve):
    server = serve(f"{COMMANDS}:Behind")
    response, body = asked(server, "GET", "/health")
    assert (response.headers["x-marked"], body) == ("yes", b"well")
    with dialled(server, subprotocols=["talk"]) as socket:
        socket.send("who")
        assert socket.recv(timeout=20) == "/room?x=1 talk 127.0.0.1"
        socket.send("close")
        with pytest.raises(websockets.exceptions.ConnectionClosed) as closed:
            socket.recv(timeout=20)
    assert closed.value.rcvd.code == 4001


def test_the_key_of_the_door_is_not_passed_on(serve, tmp_path):
    keys = tmp_path / "keys.yaml"
    keys.write_text(f"keys: [{{name: me, sha256: {hashlib.sha256(b'secret').hexdigest()}, scopes: ['*']}}]")
    server = serve(f"{COMMANDS}:Echo", "--api-keys", str(keys))
    assert asked(server, "GET", "/x")[0].status == 401
    response, body = asked(server, "GET", "/x", headers={"authorization": "Bearer secret"})
    assert response.status == 200
    assert "authorization" not in dict(json.loads(body)["headers"])

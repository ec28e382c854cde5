"""A served application, called over HTTP: what goes right, and what each wrong request gets."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor


def test_echo(calls):
    assert calls.post("/echo", {"x": [1.0, 2.5]}) == (200, [1.0, 2.5])


def test_calls_between_services_look_like_method_calls(calls):
    assert calls.post("/doubled", {"x": [1, 2, 3]}) == (200, [2.0, 4.0, 6.0])
    assert calls.post("/doubled_in_thread", {"x": 21}) == (200, 42.0)


def test_one_bad_item_fails_alone(calls):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: calls.post("/doubled", {"x": [float(n)]}), range(16)))
    for number, (status, answer) in enumerate(answers):
        if number == 13:
            assert status == 500
            assert answer["error"]["code"] == "service_failed"
        else:
            assert (status, answer) == (200, [2.0 * number])


def test_large_bodies_both_ways(calls):
    body = b"z" * (6 << 20)
    answer = calls.post("/size", body=body, headers={"content-type": "application/octet-stream"})
    assert answer == (200, len(body))
    status, blob = calls.post("/blob", {"size": 6 << 20})
    assert status == 200
    assert len(blob) == 6 << 20


def _error(answer):
    status, body = answer
    error = body["error"]
    assert error["message"]
    assert error["request_id"]
    return status, error["code"]


def test_wrong_bodies(calls):
    assert _error(calls.post("/echo", body=b"{not json")) == (400, "invalid_input")
    assert _error(calls.post("/echo", {"x": "text"})) == (400, "invalid_input")
    assert _error(calls.post("/echo", {"x": [[1.0], [2.0]]})) == (400, "invalid_input")
    assert _error(calls.post("/echo", {})) == (400, "invalid_input")
    assert _error(calls.post("/echo", {"x": [], "y": 1})) == (400, "invalid_input")
    assert _error(calls.post("/echo", [1.0])) == (400, "invalid_input")
    assert _error(calls.post("/echo", body=b"a=1", headers={"content-type": "text/csv"}))[0] == 415


def test_the_encoding_between_services_is_not_for_clients(calls):
    headers = {"content-type": "application/x-trilith"}
    assert _error(calls.post("/echo", body=b"\x92\x90\x80", headers=headers)) == (415, "unsupported_media_type")


def test_wrong_places(calls):
    assert _error(calls.post("/nothing/here")) == (404, "not_found")
    assert _error(calls.post("/double", {"values": 1.0})) == (404, "not_found")  # only the root's methods are public
    status, body = calls.get("/echo")
    assert status == 405
    assert json.loads(body)["error"]["code"] == "method_not_allowed"


def test_a_browser_at_the_root_is_shown_to_the_page_and_a_slip_to_its_path(calls):
    with calls.connection() as connection:
        connection.request("GET", "/", headers={"accept": "text/html,*/*"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["location"], answer.read()) == (307, "docs", b"")
    assert calls.get("/")[0] == 404  # what is no browser
    status, answer = calls.post("/echo/", {"x": [1.0]})
    assert status == 404
    assert answer["error"]["message"].startswith("there is nothing at /echo/ (did you mean /echo?); there is /")


def test_a_body_that_is_too_long_is_logged_with_its_method(calls):
    with calls.connection() as connection:
        connection.putrequest("POST", "/echo")
        connection.putheader("content-length", str(1 << 40))
        connection.endheaders()
        assert connection.getresponse().status == 413
    calls.wait_line("POST /echo 413: payload_too_large: ")


def test_body_over_the_limit_is_refused_before_it_is_read(calls):
    with calls.connection() as connection:
        connection.putrequest("POST", "/size")
        connection.putheader("content-type", "application/octet-stream")
        connection.putheader("content-length", str(1 << 40))
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read())["error"]["code"] == "payload_too_large"


def test_what_a_handler_raises_stays_inside(calls):
    status, body = calls.post("/raises", {})
    assert status == 500
    assert body["error"]["code"] == "service_failed"
    assert "secret" not in json.dumps(body)
    calls.wait_line("a secret of the house")  # the operator sees it, with its traceback
    assert body["error"]["request_id"] in calls.output


def test_errors_that_a_service_raises_keep_their_kind_and_when_to_come_back(calls):
    with calls.connection() as connection:
        connection.request("POST", "/full", b"{}", {"content-type": "application/json"})
        response = connection.getresponse()
        assert (response.status, response.headers["retry-after"]) == (429, "17")
        assert json.loads(response.read())["error"]["code"] == "queue_full"
    assert _error(calls.post("/own_error")) == (400, "invalid_input")


def test_a_handler_that_never_returns_meets_its_deadline(calls):
    answer = calls.post("/never", {})
    assert _error(answer) == (504, "deadline_exceeded")
    assert "Calls.never did not answer within 0.3 s" in answer[1]["error"]["message"]
    assert "timeout_s of @trilith.api or @trilith.service" in answer[1]["error"]["message"]
    assert _error(calls.post("/blocked_thread", {"seconds": 1.0})) == (504, "deadline_exceeded")
    assert _error(calls.post("/slow", {"seconds": 5}, headers={"trilith-timeout-ms": "100"}))[0] == 504
    assert _error(calls.post("/slow", {"seconds": 0}, headers={"trilith-timeout-ms": "soon"}))[0] == 400
    assert calls.post("/echo", {"x": [1.0]}) == (200, [1.0])


def test_a_client_that_goes_away_cancels_its_call(calls, tmp_path):
    mark = tmp_path / "mark"
    body = json.dumps({"path": str(mark), "seconds": 30}).encode()
    headers = f"host: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    head = f"POST /leaves_a_mark HTTP/1.1\r\n{headers}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", calls.http)) as client:
        client.sendall(head.encode() + body)
        calls.wait_until(lambda: calls.status()["services"][0]["in_flight"] == 1)
    calls.wait_until(mark.exists)
    assert mark.read_text() == "cancelled"
    calls.wait_until(lambda: calls.status()["services"][0]["in_flight"] == 0)


def test_request_id_is_echoed(calls):
    with calls.connection() as connection:
        connection.request("POST", "/echo", b"{}", {"content-type": "application/json", "x-request-id": "mine-1"})
        response = connection.getresponse()
        assert response.headers["x-request-id"] == "mine-1"
        assert json.loads(response.read())["error"]["request_id"] == "mine-1"


def test_timeline_by_floor(calls):
    with calls.connection() as connection:
        connection.request(
            "POST", "/doubled", b'{"x":[1.0]}', {"content-type": "application/json", "trilith-timeline": "1"}
        )
        response = connection.getresponse()
        response.read()
        name, floor, stamps, children = json.loads(response.headers["trilith-timeline"])
    assert (name, floor) == ("gateway Calls.doubled", 3)
    instants = [instant for _, instant in stamps]
    assert instants == sorted(instants)
    names = set()

    def walk(node):
        names.add(node[0])
        for child in node[3]:
            walk(child)

    walk([name, floor, stamps, children])
    assert {"service Calls.doubled", "gateway Doubler.double", "service Doubler.double"} <= names


def test_health_metrics_docs(calls):
    assert calls.post("/echo", {"x": [1.0]})[0] == 200
    assert calls.get("/livez")[0] == 200
    assert calls.get("/nothing")[0] == 404
    assert json.loads(calls.get("/readyz")[1]) == {"ready": True, "problems": []}
    assert b"/echo" in calls.get("/openapi.json")[1]
    assert b"<html" in calls.get("/docs")[1]
    for port in (calls.http, calls.metrics):
        text = calls.get("/metrics", port=port)[1].decode()
        assert 'trilith_service_calls_total{method="echo",outcome="ok",service="Calls"}' in text
        assert 'trilith_service_replicas{service="Doubler"} 2.0' in text
        assert 'trilith_http_responses_total{status="404"}' in text


def test_the_sizes_of_batches_are_counted(calls):
    def seen():
        lines = calls.get("/metrics")[1].decode().splitlines()
        labels = '{method="double",service="Doubler"}'
        names = [f"trilith_service_batch_size_{part}{labels} " for part in ("count", "sum")]
        return [sum(float(line.removeprefix(name)) for line in lines if line.startswith(name)) for name in names]

    batches, joined = seen()
    assert calls.post("/doubled", {"x": [0.5] * 40}) == (200, [1.0] * 40)
    more_batches, more_joined = seen()
    assert more_joined - joined == 40
    assert 5 <= more_batches - batches < 40


def test_concurrent_callers_get_their_own_answers(calls):
    failures = []

    def caller(start):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", calls.http, timeout=20)) as connection:
            for number in range(start, start + 50):
                connection.request(
                    "POST", "/doubled", json.dumps({"x": [number]}), {"content-type": "application/json"}
                )
                answer = json.loads(connection.getresponse().read())
                if number != 13 and answer != [2.0 * number]:
                    failures.append((number, answer))

    threads = [threading.Thread(target=caller, args=(1000 * index + 100,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_service_is_entered_before_its_first_call_and_left_after_its_last(serve, tmp_path):
    source = tmp_path / "held.py"
    source.write_text(
        "import trilith\n"
        "@trilith.service\nclass Held:\n"
        "    async def __aenter__(self):\n        self.state = 'entered'\n        return self\n"
        "    async def __aexit__(self, *error):\n        print('left by', self.state, flush=True)\n"
        "    @trilith.api\n    async def state_of(self) -> str:\n        return self.state\n"
    )
    server = serve(f"{source}:Held")
    assert server.post("/state_of") == (200, "entered")
    assert server.terminate() == 0
    server.wait_line("left by entered")
    server.wait_line("trilith: stopped")

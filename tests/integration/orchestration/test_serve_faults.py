"""A served application meets bad luck: nothing is lost, nothing is answered twice, everything says why."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from live_server import APPS, Server

CALLS = f"{APPS}/calls.py:Calls"


class Load:
    """Callers that post until told to stop; every outcome is kept."""

    def __init__(self, server, path, value, callers=8):
        self.server, self.path, self.value = server, path, json.dumps(value).encode()
        self.outcomes = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call) for _ in range(callers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.server.http, timeout=30)) as connection:
            while not self._stop.is_set():
                connection.request("POST", self.path, self.value, {"content-type": "application/json"})
                response = connection.getresponse()
                self.outcomes.append((response.status, response.read()))

    def statuses(self):
        return {status: sum(found == status for found, _ in self.outcomes) for status in {s for s, _ in self.outcomes}}


def test_killed_replica_under_load_idempotent_calls_are_all_answered(serve):
    server = serve(CALLS, "--replicas", "2")
    with Load(server, "/slow", {"seconds": 0.02}) as load:
        server.wait_until(lambda: len(load.outcomes) > 20)
        for _ in range(2):
            before = server.replica_pids("Calls")
            os.kill(before[0], signal.SIGKILL)
            server.wait_until(lambda before=before: len(set(server.replica_pids("Calls")) - {before[0]}) == 2)
        seen = len(load.outcomes)
        server.wait_until(lambda: len(load.outcomes) > seen + 20)
    assert load.statuses().keys() == {200}
    server.wait_line("killed by SIGKILL")


def test_killed_replica_unsafe_calls_get_one_clear_error(serve):
    server = serve(CALLS)
    pool = ThreadPoolExecutor(4)
    waiting = [pool.submit(server.post, "/slow_once", {"seconds": 20}) for _ in range(4)]
    server.wait_until(lambda: server.status()["services"][0]["in_flight"] == 4)
    assert server.post("/echo", {"x": [1.0]}) == (200, [1.0])  # it comes after them: they have begun
    os.kill(server.replica_pids("Calls")[0], signal.SIGKILL)
    for future in waiting:
        status, body = future.result(20)
        assert status == 502
        assert body["error"]["code"] == "replica_lost"
        assert "idempotent" in body["error"]["message"]
    server.wait_until(lambda: server.post("/echo", {"x": [1.0]}) == (200, [1.0]))
    pool.shutdown()


def test_a_request_that_kills_its_replica_is_not_sent_to_the_others(serve):
    server = serve(CALLS, "--replicas", "2")
    status, body = server.post("/dies", {})
    assert (status, body["error"]["code"]) == (502, "replica_lost")
    assert sum("exit code 7" in line for line in server.lines) <= 1
    server.wait_line("exit code 7")
    server.wait_until(lambda: len(server.replica_pids("Calls")) == 2)


def test_killed_dependency_is_replaced_and_batched_calls_survive(serve):
    server = serve(CALLS)
    with Load(server, "/doubled", {"x": [1.0, 2.0, 3.0]}) as load:
        server.wait_until(lambda: len(load.outcomes) > 20)
        victim = server.replica_pids("Doubler")[0]
        os.kill(victim, signal.SIGKILL)
        server.wait_until(lambda: len(set(server.replica_pids("Doubler")) - {victim}) == 2)
    assert load.statuses().keys() == {200}


def test_killed_gateway_is_replaced_and_replicas_keep_running(serve):
    server = serve(CALLS)
    replicas = server.replica_pids("Calls") + server.replica_pids("Doubler")
    os.kill(server.gateway_pid(), signal.SIGKILL)
    server.wait_line("the gateway ended")
    # The listening sockets live in the agent: a client waits in the backlog, it is not refused.
    server.wait_until(lambda: server.post("/echo", {"x": [2.0]})[0] == 200)
    server.wait_until(lambda: server.post("/doubled", {"x": [2.0]}) == (200, [4.0]))
    server.wait_until(lambda: server.status()["ready"])
    assert server.replica_pids("Calls") + server.replica_pids("Doubler") == replicas


def test_a_system_that_starts_no_process_for_a_while_does_not_end_the_server(serve):
    server = serve(CALLS, "--replicas", "2")
    agent = server.process.pid
    normal = resource.prlimit(agent, resource.RLIMIT_NOFILE)
    resource.prlimit(agent, resource.RLIMIT_NOFILE, (3, normal[1]))  # no descriptor for a pipe to a child
    try:
        before = server.replica_pids("Calls")
        os.kill(before[0], signal.SIGKILL)
        server.wait_line("could not be started: [Errno 24] Too many open files")
        assert server.post("/echo", {"x": [1.0]}) == (200, [1.0]), "by the other"
        seen = len(server.lines)
        os.kill(server.gateway_pid(), signal.SIGKILL)
        server.wait_line("could not be started: [Errno 24] Too many open files", after=seen)
    finally:
        resource.prlimit(agent, resource.RLIMIT_NOFILE, normal)
    server.wait_until(lambda: server.status()["ready"] and len(server.replica_pids("Calls")) == 2)
    assert before[0] not in server.replica_pids("Calls")
    assert server.post("/echo", {"x": [2.0]}) == (200, [2.0])
    assert server.terminate() == 0


def test_killed_agent_takes_everything_with_it(serve):
    server = serve(CALLS)
    family = _children(server.process.pid)
    assert len(family) == 4  # gateway, Calls, two Doublers
    server.process.kill()
    server.process.wait()
    server.wait_until(lambda: not any(_alive(pid) for pid in family))


def test_sigterm_finishes_what_is_in_flight_and_takes_nothing_new(serve):
    server = serve(CALLS)
    pool = ThreadPoolExecutor(3)
    waiting = [pool.submit(server.post, "/slow_once", {"seconds": 1.0}) for _ in range(3)]
    server.wait_until(lambda: server.status()["services"][0]["in_flight"] == 3)
    server.process.send_signal(signal.SIGTERM)
    for future in waiting:
        assert future.result(20)[0] == 200
    assert server.process.wait(20) == 0
    pool.shutdown()
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.http), 2):
        raise AssertionError("the port still answers")


def test_drain_has_a_deadline(serve):
    server = serve(CALLS, "--drain-timeout-s", "0.3")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.post, "/slow_once", {"seconds": 60})
        server.wait_until(lambda: server.status()["services"][0]["in_flight"] == 1)
        assert server.terminate(within_s=15) == 0
        error = waiting.exception(10)
        assert isinstance(error, (ConnectionError, http.client.HTTPException)) or waiting.result()[0] in (502, 503)


def test_ctrl_c_ends_cleanly(serve):
    server = serve(CALLS)
    family = _children(server.process.pid)
    server.process.send_signal(signal.SIGINT)  # the others are in groups of their own, out of the terminal's reach
    assert server.process.wait(15) == 0
    assert not any(_alive(pid) for pid in family)
    assert "Traceback" not in server.output


def test_port_in_use_is_one_sentence(serve):
    server = serve(CALLS)
    other = serve(CALLS, "--http-port", str(server.http), ready=False)
    assert other.process.wait(20) == 2
    other.wait_line("--http-port (0: any free one)")
    third = serve(CALLS, "--grpc-port", str(server.grpc), ready=False)
    assert third.process.wait(20) == 2
    third.wait_line("--grpc-port (0: any free one, off: none)")
    assert str(server.http) in other.output
    assert "Traceback" not in other.output


def test_ports_that_are_off_need_not_be_free(serve):
    server = serve(CALLS, "--grpc-port", "off", "--metrics-port", "off", ready=False)
    line = server.wait_line("ready: ")
    assert "gRPC" not in line
    assert "metrics" not in line
    server.http = int(line.split("http://", 1)[1].split()[0].rsplit(":", 1)[1])
    assert server.post("/echo", {"x": [1.0]}) == (200, [1.0])
    assert b"trilith_service_calls_total" in server.get("/metrics")[1]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(server.runtime_folder)}
    command = [sys.executable, "-m", "trilith", "status"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=20)
    assert done.returncode == 0
    assert re.search(r" ready +pid .* metrics off: no more is known", done.stdout)
    assert server.terminate() == 0


def test_servers_live_side_by_side(serve):
    first, second = serve(CALLS), serve(CALLS)
    assert first.post("/process_id", {})[1] != second.post("/process_id", {})[1]


def test_broken_constructor_says_why_and_stops(serve):
    server = serve(f"{APPS}/broken.py:Broken", ready=False)
    assert server.process.wait(40) == 1
    assert "does not like Mondays" in server.output
    assert server.output.count("Traceback") == 1  # the first time; the tries after it say it in a line
    assert "giving up" in server.output


def test_missing_model_says_where_was_looked(serve):
    server = serve(f"{APPS}/broken.py:NoSuchModel", ready=False)
    assert server.process.wait(40) == 1
    assert "nowhere-to-be-found" in server.output
    assert "looked in" in server.output


def test_unknown_target_says_what_there_is(serve):
    server = serve(f"{APPS}/calls.py:Cals", ready=False)
    assert server.process.wait(20) == 1
    assert "Calls" in server.output
    missing = serve(f"{APPS}/no_such_file.py:Calls", ready=False)
    assert missing.process.wait(20) == 2
    assert "calls.py" in missing.output


def test_reload_switches_when_the_new_revision_is_up(serve, tmp_path):
    source = tmp_path / "app.py"
    text = "import trilith\n@trilith.service\nasync def answer(n: int) -> int:\n    return n + {}\n"
    source.write_text(text.format(1))
    server = serve(f"{source}:answer", "--reload")
    assert server.post("/answer", {"n": 1}) == (200, 2)
    server.wait_line("watching")
    source.write_text(text.format(100))
    server.wait_until(lambda: server.post("/answer", {"n": 1}) == (200, 101))
    source.write_text("this is not python\n")
    server.wait_line("keeps serving")
    assert server.post("/answer", {"n": 1}) == (200, 101)
    source.write_text(text.format(1000))
    server.wait_until(lambda: server.post("/answer", {"n": 1}) == (200, 1001))


def test_overload_is_refused_at_once_and_says_when_to_come_back(serve, tmp_path):
    source = tmp_path / "narrow.py"
    source.write_text(
        "import asyncio, trilith\n"
        "@trilith.service(concurrency=1, max_waiting=4)\n"
        "async def hold(seconds: float) -> int:\n    await asyncio.sleep(seconds)\n    return 1\n"
    )
    server = serve(f"{source}:hold")
    body = b'{"seconds":30}'
    head = f"POST /hold HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.http)))
            client.sendall(head.encode() + body)
        server.wait_until(lambda: server.status()["services"][0]["waiting"] == 4)
        assert server.status()["services"][0]["in_flight"] == 1
        with server.connection() as connection:
            connection.request("POST", "/hold", body, {"content-type": "application/json"})
            response = connection.getresponse()
            assert response.status == 429
            assert int(response.headers["retry-after"]) >= 1
            assert json.loads(response.read())["error"]["code"] == "queue_full"
    server.wait_until(lambda: server.status()["services"][0]["waiting"] == 0)
    assert b'outcome="queue_full"' in server.get("/metrics")[1]


def test_a_long_timeline_is_kept_where_the_header_says(serve):
    server = serve(CALLS)
    with server.connection() as connection:
        body = json.dumps({"x": list(range(100, 150))})
        connection.request("POST", "/doubled", body, {"content-type": "application/json", "trilith-timeline": "1"})
        response = connection.getresponse()
        response.read()
        where = response.headers["trilith-timeline-at"]
    status, raw = server.get(where)
    assert status == 200
    name, _, _, children = json.loads(raw)
    assert name == "gateway Calls.doubled"
    assert children
    assert server.get("/timelines/none")[0] == 404


def _children(pid):
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def _alive(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def test_status_command_sees_the_server(serve):
    server = serve(CALLS)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(server.runtime_folder)}
    command = [sys.executable, "-m", "trilith", "status", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=20)
    [report] = json.loads(done.stdout)
    assert report["record"]["pid"] == server.process.pid
    assert report["status"]["ready"] is True
    assert done.returncode == 0
    shown = subprocess.run(command[:-1], capture_output=True, text=True, env=environment, check=False, timeout=20)
    assert "Doubler" in shown.stdout
    server.terminate()
    after = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=20)
    assert (after.returncode, json.loads(after.stdout)) == (1, [])


def test_a_replica_whose_loop_is_blocked_is_replaced(serve, tmp_path):
    source = tmp_path / "blocks.py"
    source.write_text(
        "import os, time, trilith\n"
        "@trilith.service\nclass Blocks:\n"
        "    @trilith.api(timeout_s=0.2)\n"
        "    async def block(self) -> int:\n"
        "        time.sleep(600)\n        return 1\n"
        "    @trilith.api\n"
        "    async def process_id(self) -> int:\n        return os.getpid()\n"
    )
    server = serve(f"{source}:Blocks", "--unresponsive-timeout-s", "3")
    _, first = server.post("/process_id")
    status, body = server.post("/block")
    assert (status, body["error"]["code"]) == (504, "deadline_exceeded")
    server.wait_line("not heard")
    server.wait_until(lambda: server.post("/process_id")[1] != first)


def test_a_replica_whose_threads_are_all_stuck_is_replaced(serve, tmp_path):
    source = tmp_path / "stuck.py"
    source.write_text(
        "import os, time, trilith\n"
        "@trilith.service(threads=2, concurrency=2, timeout_s=0.2)\nclass Stuck:\n"
        "    @trilith.api\n"
        "    def hang(self) -> int:\n"
        "        time.sleep(600)\n        return 1\n"
        "    @trilith.api\n"
        "    async def process_id(self) -> int:\n        return os.getpid()\n"
    )
    server = serve(f"{source}:Stuck", "--unresponsive-timeout-s", "3")
    _, first = server.post("/process_id")
    for _ in range(2):
        assert server.post("/hang")[0] == 504
    server.wait_line("given up")
    # Until the new one is there, calls end at their time limit.
    server.wait_until(lambda: (answer := server.post("/process_id"))[0] == 200 and answer[1] != first)


def test_a_replica_whose_batch_never_ends_is_replaced(serve, tmp_path):
    source = tmp_path / "endless.py"
    source.write_text(
        "import os, time, trilith\n"
        "@trilith.service(threads=4, timeout_s=0.2)\nclass Endless:\n"
        "    @trilith.api(batch=trilith.Batch())\n"
        "    def hang(self, xs: list[int]) -> list[int]:\n"
        "        time.sleep(600 if xs[0] else 0)\n        return [os.getpid() for _ in xs]\n"
    )
    server = serve(f"{source}:Endless", "--unresponsive-timeout-s", "3")
    _, first = server.post("/hang", {"xs": 0})
    assert server.post("/hang", {"xs": 1})[0] == 504
    assert server.post("/hang", {"xs": 0})[0] == 504, "no batch starts beside the one that hangs"
    server.wait_line("a batch that was given up still runs")
    server.wait_until(lambda: (answer := server.post("/hang", {"xs": 0}))[0] == 200 and answer[1] != first)


def test_a_thread_that_all_callers_left_ends_before_the_next_batch_begins(serve, tmp_path):
    source = tmp_path / "alone.py"
    source.write_text(
        "import time, trilith\n"
        "@trilith.service(threads=4, timeout_s=20)\nclass Alone:\n"
        "    inside, worst = 0, 0\n"
        "    @trilith.api(batch=trilith.Batch())\n"
        "    def hold(self, seconds: list[float]) -> list[int]:\n"
        "        self.inside += 1\n        self.worst = max(self.worst, self.inside)\n"
        "        time.sleep(max(seconds))\n        self.inside -= 1\n"
        "        return [self.worst for _ in seconds]\n"
    )
    server = serve(f"{source}:Alone")
    assert server.post("/hold", {"seconds": 1}, headers={"trilith-timeout-ms": "100"})[0] == 504
    assert server.post("/hold", {"seconds": 0}) == (200, 1)


def test_cpu_bounds_the_threads_of_native_libraries(serve, tmp_path):
    source = tmp_path / "threads.py"
    source.write_text(
        "import os, trilith\n"
        "@trilith.service(cpu=1)\n"
        "async def threads() -> str:\n    return os.environ.get('OMP_NUM_THREADS', 'unbounded')\n"
    )
    server = serve(f"{source}:threads")
    assert server.post("/threads") == (200, "1")
    assert len(server.replica_pids("threads")) == 1


REVISION_1 = """
import trilith

@trilith.service
class Helper:
    @trilith.api(batch=trilith.Batch(max_size=4))
    async def double(self, values: list[int]) -> list[int]:
        return [2 * value for value in values]

@trilith.service
class App:
    helper = trilith.depends(Helper)

    @trilith.api(idempotent=True)
    async def answer(self, n: int) -> int:
        return await self.helper.double(n)
"""
REVISION_2 = """
import trilith

@trilith.service
class App:
    @trilith.api(idempotent=True)
    async def answer(self, n: int) -> int:
        return 3 * n

    @trilith.api
    async def more(self, n: str) -> str:
        return n + n
"""
REVISION_3 = REVISION_2.replace(
    "class App:", "class App:\n    def __init__(self):\n        raise ValueError('not today')\n"
)


def test_reload_switches_services_and_methods_in_one_step(serve, tmp_path):
    source = tmp_path / "app.py"
    source.write_text(REVISION_1)
    server = serve(f"{source}:App", "--reload")
    server.wait_line("watching")
    with Load(server, "/answer", {"n": 7}, callers=4) as load:
        server.wait_until(lambda: len(load.outcomes) > 20)
        source.write_text(REVISION_2)
        server.wait_until(lambda: (200, b"21") in load.outcomes[-4:])
        seen = len(load.outcomes)
        server.wait_until(lambda: len(load.outcomes) > seen + 20)
    assert set(load.outcomes) == {(200, b"14"), (200, b"21")}, server.output
    assert server.post("/more", {"n": "ab"}) == (200, "abab")
    server.wait_until(lambda: json.loads(server.get("/readyz")[1])["ready"])
    server.wait_until(lambda: [entry["name"] for entry in server.status()["services"]] == ["App"])
    source.write_text(REVISION_3)
    server.wait_line("the revision before it keeps serving")
    assert server.post("/answer", {"n": 7}) == (200, 21)
    source.write_text(REVISION_1)
    server.wait_until(lambda: server.post("/answer", {"n": 7}) == (200, 14))


def test_a_first_change_that_cannot_start_leaves_the_first_revision_serving(serve, tmp_path):
    source = tmp_path / "app.py"
    source.write_text(REVISION_2)
    server = serve(f"{source}:App", "--reload", "--replicas", "2")
    server.wait_line("watching")
    before = server.replica_pids("App")
    source.write_text(REVISION_3)
    server.wait_line("the revision before it keeps serving")
    assert server.post("/answer", {"n": 7}) == (200, 21)
    server.wait_until(lambda: server.status()["ready"])
    assert server.replica_pids("App") == before


def test_nested_calls_that_are_given_up_leave_nothing_behind(serve):
    server = serve(CALLS)
    body = json.dumps({"x": [1.0] * 40}).encode()
    headers = f"host: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    head = f"POST /doubled HTTP/1.1\r\n{headers}\r\n\r\n"
    for _ in range(30):
        with socket.create_connection(("127.0.0.1", server.http)) as client:
            client.sendall(head.encode() + body)
            server.wait_until(lambda: any(entry["in_flight"] for entry in server.status()["services"]))
    server.wait_until(lambda: all(entry["in_flight"] == entry["waiting"] == 0 for entry in server.status()["services"]))
    assert server.post("/doubled", {"x": [2.0]}) == (200, [4.0])


def test_a_start_that_takes_long_says_what_it_waits_for(serve, tmp_path):
    source = tmp_path / "slow.py"
    source.write_text("import time\ntime.sleep(600)\n")
    server = serve(f"{source}:App", ready=False)
    server.wait_line("still starting")
    assert server.terminate() == 0


def test_a_replica_that_forked_and_died_is_replaced(serve, tmp_path):
    source = tmp_path / "forks.py"
    source.write_text(
        "import os, time, trilith\n"
        "@trilith.service\nclass Forks:\n"
        "    @trilith.api\n"
        "    async def fork(self) -> int:\n"
        "        child = os.fork()\n"
        "        if child == 0:\n            time.sleep(25)\n            os._exit(0)\n"
        "        return child\n"
        "    @trilith.api\n"
        "    async def process_id(self) -> int:\n        return os.getpid()\n"
    )
    server = serve(f"{source}:Forks")
    _, child = server.post("/fork")
    _, first = server.post("/process_id")
    try:
        os.kill(first, signal.SIGKILL)
        server.wait_until(lambda: (answer := server.post("/process_id"))[0] == 200 and answer[1] != first)
        assert server.terminate() == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_calls_before_the_application_is_loaded_are_told_to_come_back(serve, tmp_path):
    source = tmp_path / "slow_import.py"
    source.write_text(
        "import time\ntime.sleep(3)\nimport trilith\n@trilith.service\nasync def hi() -> str:\n    return 'hi'\n"
    )
    server = serve(f"{source}:hi", ready=False)
    folder = server.runtime_folder / "trilith"
    server.wait_until(lambda: any(folder.glob("server-*.json")))
    [record] = folder.glob("server-*.json")
    server.http = int(json.loads(record.read_text())["http"].rsplit(":", 1)[1])
    status, body = server.post("/hi")
    assert (status, body["error"]["code"]) == (503, "no_ready_replica")
    server.wait_ready()
    assert server.post("/hi") == (200, "hi")


def test_what_a_killed_server_left_is_removed_by_the_next(serve):
    first = serve(CALLS)
    first.process.kill()
    first.process.wait()
    folder = first.runtime_folder / "trilith"
    [of_first] = folder.glob("p-*")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(first.runtime_folder)}
    second = Server([CALLS, "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0"], environment)
    try:
        second.wait_ready()
        [left] = folder.glob("p-*")
        assert left != of_first
    finally:
        second.close()


def test_a_gateway_that_is_stopped_is_replaced(serve):
    server = serve(CALLS, "--unresponsive-timeout-s", "2")
    os.kill(server.gateway_pid(), signal.SIGSTOP)
    server.wait_line("killing the gateway")
    server.wait_line("starting another, replicas keep running")
    server.wait_until(lambda: server.post("/doubled", {"x": [2.0]}) == (200, [4.0]))


def test_a_plain_method_that_keeps_the_lock_is_named_once_and_its_caller_gets_no_bad_advice(serve, tmp_path):
    source = tmp_path / "keeps.py"
    source.write_text(
        "import trilith\n"
        "@trilith.service\nclass Keeps:\n"
        "    @trilith.api(timeout_s=120)\n"
        "    def compute(self, n: int) -> int:\n        return sum(range(n))\n"
    )
    server = serve(f"{source}:Keeps", "--unresponsive-timeout-s", "4")
    status, body = server.post("/compute", {"n": 10**12}, timeout=60)
    assert (status, body["error"]["code"]) == (502, "replica_lost")
    assert "hung" in body["error"]["message"]
    assert "idempotent" not in body["error"]["message"]
    line = server.wait_line("killing a replica of Keeps")
    assert "it held calls of Keeps.compute" in line
    server.wait_until(lambda: server.status()["services"][0]["replicas"][0]["state"] == "running")
    pid = line.split("(pid ", 1)[1].split(")", 1)[0]
    assert sum(f"pid {pid}" in each for each in server.lines) == 1

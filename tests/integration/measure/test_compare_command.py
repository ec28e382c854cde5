"""`trilith compare` against servers that answer as told."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from waiting import wait_until

from trilith.cli import main
from trilith.cli.compare import compare
from trilith.errors import InvalidConfig, SetupError
from trilith.testing.load import served

QUICK = {"rounds": 4, "round_duration": "150ms", "warmup": "20ms", "concurrency": 2}
RUN = """
import sys
from trilith.cli.compare import compare
sys.exit(compare(*sys.argv[1:], round_duration="50ms", warmup="0s", rounds=1000))
"""


SERVICE = """
import asyncio
import trilith

@trilith.service
class Waits:
    @trilith.api
    async def wait(self, milliseconds: float) -> float:
        await asyncio.sleep(milliseconds / 1000)
        return milliseconds
"""


class Scripted(BaseHTTPRequestHandler):
    """Takes the milliseconds of its path. Of `/limited` every second answer is a 429."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.server.answered += 1
        self.rfile.read(int(self.headers.get("content-length", 0)))
        place = self.path.strip("/")
        if place.isdecimal():
            time.sleep(int(place) / 1000)
        status = 429 if place == "limited" and self.server.answered % 2 else 404 if place == "missing" else 200
        body = b'{"done": true}' if place != "long" else b'{"done": true, "text": "%s"}' % (b"x" * 500)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    answered = 0

    def handle_error(self, *_):
        """Connections that the generator drops at the end of a level are none."""


@contextmanager
def serving():
    with QuietServer(("127.0.0.1", 0), Scripted) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


@pytest.fixture
def server():
    with serving() as running:
        yield running


def url(server, path):
    return f"http://127.0.0.1:{server.server_address[1]}/{path}"


@pytest.mark.full
def test_what_waits_five_times_as_long_is_found_slower(server, tmp_path, capsys):
    code = compare(
        f"waits={url(server, 50)}",
        url(server, 10),
        data=("{}",),
        pid=(f"waits={os.getpid()}",),
        json=tmp_path / "c.json",
        **QUICK,
    )
    assert code == 0
    said = capsys.readouterr().out
    assert "B as a multiple of waits" in said
    document = json.loads((tmp_path / "c.json").read_bytes())
    assert document["comparisons"][0]["ratios"]["throughput"]["ratio"] > 1
    there, back = ["waits", "B"], ["B", "waits"]
    assert [each["order"] for each in document["rounds"]] == [there, back, back, there]
    assert {each["waits"]["cpu"] is None for each in document["rounds"]} == {False}
    assert {each["B"]["cpu"] is None for each in document["rounds"]} == {True}


@pytest.mark.full
def test_at_a_fixed_rate_all_get_the_same_requests(server, capsys):
    options = {**QUICK, "rounds": 3, "rate": 60.0, "round_duration": "300ms"}
    assert compare(url(server, 5), url(server, 60), method=("GET",), **options) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "60 a second" in said
    assert "mean latency" in said


@pytest.mark.full
def test_a_service_over_http_beside_itself_over_grpc(tmp_path, capsys):
    (tmp_path / "app.py").write_text(SERVICE)
    with served("app.py:Waits", folder=tmp_path) as waits:
        targets = f"http={waits.url('/wait')}", f"grpc=grpc://{waits.grpc}/waits.Waits/Wait"
        assert compare(*targets, data=('{"milliseconds": 5}',), **{**QUICK, "rounds": 3}) == 0
    said = capsys.readouterr().out
    assert "grpc as a multiple of http" in said
    assert "Where the mean latency differs (grpc less http)" in said
    assert "failed requests" not in said
    assert "answers differ" not in said


def test_figures_on_standard_output_come_alone(server, capfdbinary):
    options = ("--rounds", "2", "--round-duration", "50ms", "--warmup", "0s", "--concurrency", "2", "--method", "GET")
    with pytest.raises(SystemExit) as ended:
        main(["compare", url(server, 5), url(server, 5), *options, "--json", "-"])
    assert ended.value.code == 0
    document = json.loads(capfdbinary.readouterr().out)
    assert document["schema"] == "trilith-compare/1"
    assert len(document["rounds"]) == 2


def test_answers_and_limits_are_told(server, capsys):
    assert (
        compare(
            url(server, "5"),
            f"other={url(server, 'long')}",
            url(server, "limited"),
            data=("{}",),
            **{**QUICK, "rounds": 2},
        )
        == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "The answers differ in form: A gives status 200, 14 bytes, {done: true or false}; other gives" in said
    assert "C turns requests away" in said


def test_who_is_not_there_is_told_by_name(server):
    with pytest.raises(SetupError, match="old: nothing listens"):
        compare(f"new={url(server, 5)}", "old=http://127.0.0.1:1/", method=("GET",))
    with pytest.raises(SetupError, match=r"B: GET .* status 404"):
        compare(url(server, 5), url(server, "missing"), method=("GET",))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pid": ("12",)}, "NAME=PID"),
        ({"until": "wide"}, "expected a share"),
        ({"concurrency": 0}, "from 1 to 10000"),
        ({"method": ("GET", "POST")}, "given 2 times"),
        ({"round_duration": "soon"}, "expected a time"),
    ],
)
def test_options_that_mean_nothing(server, options, said):
    with pytest.raises(InvalidConfig, match=said):
        compare(url(server, 1), url(server, 1), **{"method": ("GET",), **options})


def test_an_interrupt_shows_the_rounds_so_far(server):
    running = subprocess.Popen(
        [sys.executable, "-c", RUN, url(server, 1), url(server, 1)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_until(lambda: server.answered > 600 or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 130, err
    assert b"Interrupted after" in out
    assert b"Traceback" not in err

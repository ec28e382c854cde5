import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from waiting import wait_until

from trilith.cli import main
from trilith.cli.bench import bench
from trilith.errors import SetupError

RUN = "import sys\nfrom trilith.cli.bench import bench\nsys.exit(bench(sys.argv[1], duration=sys.argv[2], warmup='0s'))"


class Echo(BaseHTTPRequestHandler):
    """404 for /missing and /openapi.json, 500 for /broken, 503 for /busy, else the body back."""

    answered = 0
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(
            {"/missing": 404, "/openapi.json": 404, "/broken": 500, "/busy": 503}.get(
                self.path, 422 if body == b'"bad"' else 200
            )
        )
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        Echo.answered += 1

    do_POST = do_GET

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except ConnectionError:  # the generator drops its connections when it is done
            self.close_connection = True

    def finish(self):
        with contextlib.suppress(ConnectionError):
            super().finish()

    def log_message(self, *_):
        pass


@pytest.fixture
def echo_port():
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


def test_of_several_bodies_the_one_that_is_refused_is_named(echo_port, tmp_path):
    (tmp_path / "bad.json").write_bytes(b'"bad"')
    with pytest.raises(SetupError, match=r"\(body 2: .*bad\.json\) is answered with status 422"):
        bench(f"http://127.0.0.1:{echo_port}/echo", data=('{"x": 2}', str(tmp_path / "bad.json")))


def test_table_json_and_csv(echo_port, tmp_path, capsys):
    (tmp_path / "body.json").write_bytes(b'{"x": 1}')
    code = bench(
        f"http://127.0.0.1:{echo_port}/echo",
        data=(str(tmp_path / "body.json"), '{"x": 2}'),
        concurrency="1,2",
        duration="200ms",
        warmup="50ms",
        pid=os.getpid(),
        json=tmp_path / "report.json",
        csv=tmp_path / "report.csv",
    )
    assert code == 0
    shown = capsys.readouterr().out
    assert "req/s" in shown
    assert "No breakdown" in shown
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert report["method"] == "POST"
    assert [level["concurrency"] for level in report["levels"]] == [1, 2]
    assert all(level["latency"]["count"] > 5 and not level["errors"] for level in report["levels"])
    assert report["levels"][0]["server_cpu_s"] > 0
    assert len(list(csv.DictReader((tmp_path / "report.csv").read_text().splitlines()))) == 2


@pytest.mark.parametrize("option", ["--json", "--csv"])
def test_figures_on_standard_output_come_alone(echo_port, capfdbinary, option):
    measured = ("--concurrency", "1", "--duration", "300ms", "--warmup", "0s")
    with pytest.raises(SystemExit) as ended:
        main(["bench", f"http://127.0.0.1:{echo_port}/", *measured, option, "-"])
    assert ended.value.code == 0
    shown = capfdbinary.readouterr().out
    if option == "--json":
        assert json.loads(shown)["levels"]
    else:
        assert len(list(csv.DictReader(shown.decode().splitlines()))) == 1


def test_an_option_is_no_file(echo_port, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", f"http://127.0.0.1:{echo_port}/", "--json", "--csv", "x"])
    assert ended.value.code == 2
    assert "expected a file, or - for standard output; got --csv" in capsys.readouterr().err


def test_a_wrong_request_is_told_at_once(echo_port):
    with pytest.raises(SetupError, match="status 404"):
        bench(f"http://127.0.0.1:{echo_port}/missing")


def test_nothing_listens(echo_port):
    with pytest.raises(SetupError, match="connection refused"):
        bench("http://127.0.0.1:1/")


def test_if_everything_fails_the_exit_status_says_so(echo_port, capsys):
    assert bench(f"http://127.0.0.1:{echo_port}/busy", concurrency="2", duration="1s", warmup="0s") == 1
    assert "status 503" in capsys.readouterr().out


def test_what_always_fails_is_told_at_once(echo_port):
    with pytest.raises(SetupError, match="status 500, 3 times in a row"):
        bench(f"http://127.0.0.1:{echo_port}/broken", duration="10m")


def test_an_interrupt_shows_what_was_measured(echo_port):
    running = subprocess.Popen(
        [sys.executable, "-c", RUN, f"http://127.0.0.1:{echo_port}/", "30s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    before = Echo.answered
    wait_until(lambda: Echo.answered > before + 50 or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 130, err
    assert b"Interrupted" in out

"""`trilith plan` by an endpoint and by a report."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest

from trilith.cli import main
from trilith.cli.bench import bench
from trilith.cli.plan import plan
from trilith.errors import InvalidConfig, SetupError
from trilith.measure.capacity import points_of_json

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
QUICK = {"duration": "150ms", "warmup": "0s", "method": "GET"}


class TwoAtATime(asyncio.Protocol):
    """Every answer takes 10 ms of one of two servers."""

    def __init__(self, places):
        self.places = places

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.answering = asyncio.get_running_loop().create_task(self.answer())

    async def answer(self):
        async with self.places:
            await asyncio.sleep(0.01)
        if not self.transport.is_closing():
            self.transport.write(ANSWER)


@contextmanager
def serving():
    """The server in a thread of its own; its URL."""
    ready, running = threading.Event(), {}

    async def main():
        places, running["stop"], running["loop"] = asyncio.Semaphore(2), asyncio.Event(), asyncio.get_running_loop()
        server = await running["loop"].create_server(lambda: TwoAtATime(places), "127.0.0.1", 0)
        running["port"] = server.sockets[0].getsockname()[1]
        ready.set()
        await running["stop"].wait()
        server.close()
        await server.wait_closed()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield f"http://127.0.0.1:{running['port']}/"
    finally:
        running["loop"].call_soon_threadsafe(running["stop"].set)
        thread.join(10)


@pytest.fixture(scope="module")
def url():
    with serving() as running:
        yield running


def test_an_endpoint_is_measured_and_planned_for(url, tmp_path, capsys):
    code = plan(url, rate=1000, p99="5s", check=True, check_duration="300ms", json=tmp_path / "plan.json", **QUICK)
    said = capsys.readouterr()
    assert "measuring: 1 in flight" in said.err
    assert "1,000/s at p99 within 5s take" in " ".join(said.out.split())
    document = json.loads((tmp_path / "plan.json").read_bytes())
    assert 0 < document["model"]["capacity_per_s"] <= 201
    assert document["chosen"]["replicas"] >= 7
    assert document["check"]["rate_per_s"] == pytest.approx(1000 / document["chosen"]["replicas"])
    assert code == (0 if document["check"]["holds"] else 1)
    assert "Checked at " in said.out


def test_reports_of_bench_are_planned_by(url, tmp_path, capfdbinary):
    report, at_random = tmp_path / "report.json", tmp_path / "at_random.json"
    assert bench(url, concurrency="1,8", json=report, **QUICK) == 0
    assert bench(url, rate="100", json=at_random, **QUICK) == 0
    rates = [point.rate_per_s for point in points_of_json(at_random.read_bytes(), "at_random.json")]
    assert rates == [100.0]
    capfdbinary.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "plan",
                str(report),
                str(at_random),
                "--rate=50",
                "--p95=5s",
                "--price-per-hour=1",
                "--spare=1",
                "--json",
                "-",
            ]
        )
    assert ended.value.code == 0
    document = json.loads(capfdbinary.readouterr().out)
    assert document["demand"]["fraction"] == 0.95
    assert document["chosen"]["per_million"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give the latency"),
        ({"p99": "1s", "p95": "1s"}, "give the latency"),
        ({"p99": "1s", "replicas": 0}, "one or more"),
        ({"p99": "1s", "check": True}, "sends requests"),
        ({"p99": "soon"}, "expected a time"),
        ({"p99": "1s", "most_busy": "full"}, "expected a share"),
    ],
)
def test_options_that_mean_nothing(options, said):
    with pytest.raises(InvalidConfig, match=said):
        plan("report.json", rate=1, **options)


def test_what_is_not_there_is_told(tmp_path):
    with pytest.raises(InvalidConfig, match="expected an endpoint, or reports"):
        plan("http://127.0.0.1:1/", "report.json", rate=1, p99="1s")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        plan(str(tmp_path / "absent.json"), rate=1, p99="1s")
    with pytest.raises(SetupError, match="nothing listens"):
        plan("http://127.0.0.1:1/", rate=1, p99="1s", method="GET")

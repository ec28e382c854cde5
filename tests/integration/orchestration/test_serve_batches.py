"""Batches of a size that no single message to a replica carries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

APP = """
import pathlib
import time
import trilith

@trilith.service(max_waiting=1000, concurrency=4)
class Many:
    @trilith.api(batch=trilith.Batch(max_size=400))
    def sizes(self, x: list[int]) -> list[int]:
        while x[0] < 0 and not pathlib.Path("GO").exists():
            time.sleep(0.01)
        return [len(x)] * len(x)
"""
HEAD = "h" * 60_000


def test_a_batch_whose_heads_are_more_than_one_message_takes_goes_as_several(serve, tmp_path):
    go = tmp_path / "go"
    source = tmp_path / "app.py"
    source.write_text(APP.replace("GO", str(go)))
    server = serve(f"{source}:Many")
    with ThreadPoolExecutor(301) as pool:
        first = pool.submit(server.post, "/sizes", {"x": -1}, timeout=60.0)
        server.wait_until(lambda: b'trilith_service_in_flight{service="Many"} 1' in server.get("/metrics")[1])
        others = [
            pool.submit(server.post, "/sizes", {"x": number}, headers={"x-large": HEAD}, timeout=60.0)
            for number in range(300)
        ]
        server.wait_until(lambda: b'trilith_service_waiting{service="Many"} 300' in server.get("/metrics")[1])
        go.touch()
        assert first.result() == (200, 1)
        answers = [other.result() for other in others]
    assert {status for status, _ in answers} == {200}
    sizes = {size for _, size in answers}
    assert max(sizes) < 300
    assert len(sizes) == 2, "two batches"
    assert server.post("/sizes", {"x": 1}) == (200, 1)

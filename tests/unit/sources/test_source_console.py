from __future__ import annotations

import io

from trilith.runtime.sources import FetchEvent, Phase
from trilith.runtime.sources.console import ConsoleProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _events() -> list[FetchEvent]:
    source = "pypi:a==1#models/x.onnx"
    return [
        FetchEvent(source=source, phase=Phase.FETCHING),
        FetchEvent(source=source, phase=Phase.FETCHING, done_bytes=5, total_bytes=10),
        FetchEvent(source=source, phase=Phase.READY, done_bytes=10, total_bytes=10),
    ]


def test_elsewhere_than_on_a_terminal_each_phase_is_one_line():
    stream = io.StringIO()
    with ConsoleProgress(stream) as progress:
        for event in _events():
            progress(event)
    assert stream.getvalue() == "fetching: pypi:a==1#models/x.onnx\nready: pypi:a==1#models/x.onnx\n"


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ConsoleProgress(stream) as progress:
        for event in _events():
            progress(event)
    assert "ready x.onnx" in stream.getvalue()
    assert "10/10 bytes" in stream.getvalue()


def test_nothing_fetched_nothing_said():
    stream = io.StringIO()
    with ConsoleProgress(stream):
        pass
    assert stream.getvalue() == ""

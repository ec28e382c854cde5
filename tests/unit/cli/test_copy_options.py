"""The words of a copy: what the server was started with, but what a copy has of its own."""

import dataclasses

import pytest

from trilith.cli import main
from trilith.cli.copy_options import OWN
from trilith.cli.serve import serve


@pytest.fixture
def options_of(tmp_path, monkeypatch):
    """The options that words for `trilith serve` come to."""
    asked = []
    monkeypatch.setattr("trilith.orchestration.serve_forever", lambda options: asked.append(options) or 0)
    monkeypatch.chdir(tmp_path)
    for folder in ("models", "more"):
        (tmp_path / folder).mkdir()

    def of(*words):
        with pytest.raises(SystemExit) as ended:
            main(["serve", *words])
        assert ended.value.code == 0
        return asked.pop()

    return of


@pytest.mark.parametrize(
    "words",
    [
        ("app.py:S",),
        ("app.py:S", "--reload", "--reload-include", "*.html", "--http-port=0", "--grpc-port", "off", "--debug"),
        ("app.py:S", "--inline", "--host", "0.0.0.0", "--drain-timeout-s", "2", "--set", "S.replicas=2"),
        ("app.py:S", "--models", "models", "--models", "more", "--cors-origin", "*", "--trace-sample", "0.5"),
        ("models", "--no-strict-readiness", "--metrics-config", "counter_latencies=false", "--id=-1"),
        ("--model-repository", "models", "--model-repository", "more", "--model-control-mode", "explicit"),
    ],
)
def test_a_copy_is_started_as_its_server_was(options_of, words):
    server = options_of(*words)
    copy = options_of(server.target, *server.copy_options)
    own = {"reload": False, "reload_include": (), "inline": False, "host": "127.0.0.1", "http_port": 8000}
    own |= {"grpc_port": 8001, "metrics_port": 8002, "drain_s": 30.0, "settings": copy.settings}
    assert copy == dataclasses.replace(server, **own)


def test_what_a_copy_has_of_its_own_are_options():
    assert set(serve.__kwdefaults__) >= OWN

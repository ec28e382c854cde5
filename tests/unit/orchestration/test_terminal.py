"""What a person sees of the start of a repository."""

import io
import json
import re

from trilith.core.log_options import LogOptions
from trilith.orchestration.engine.control import ModelRow
from trilith.orchestration.engine.keys_held import HeldKeys
from trilith.orchestration.engine.terminal import Terminal
from trilith.orchestration.narration import ready


class Tty(io.StringIO):
    def isatty(self):
        return True


def plain(stream):
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def row(name, state="READY", reason=""):
    return ModelRow(
        name=name, version="1", backend="identity", instances=2, device="CPU", load_s=0.25, state=state, reason=reason
    )


def test_a_line_that_changes_and_lines_that_stay():
    stream = Tty()
    terminal = Terminal(stream)
    terminal.loading(1, 3, "ocr")
    terminal.loading(2, 3, "det")
    terminal.tell("model not available: det")
    terminal.loading(3, 3, "rec")
    assert stream.getvalue() == (
        "loading models: 1 of 3, last ocr\r\x1b[K"
        "loading models: 2 of 3, last det\r\x1b[K"
        "trilith: model not available: det\n"
    )


def test_a_table_with_what_is_not_ready_first():
    stream = Tty()
    Terminal(stream).table([row("good"), row("bad", "UNAVAILABLE", "no")])
    head, first, second = plain(stream).splitlines()
    assert head.split() == ["model", "version", "backend", "instances", "device", "loaded", "in", "state"]
    assert "bad" in first
    assert "UNAVAILABLE" in first
    assert second.split() == ["good", "1", "identity", "2", "CPU", "0.25", "s", "READY"]


def test_a_thousand_models_are_not_a_thousand_lines():
    stream = Tty()
    Terminal(stream).table([row(f"m{at}") for at in range(1000)])
    assert len(stream.getvalue().splitlines()) == 42
    assert "and 960 more" in plain(stream)


def test_a_file_gets_the_lines_alone():
    stream = io.StringIO()
    terminal = Terminal(stream)
    terminal.loading(1, 3, "ocr")
    terminal.table([row("good")])
    terminal.tell("ready")
    assert stream.getvalue() == "trilith: ready\n"


def test_a_log_has_the_level_of_a_line_and_the_traceback_by_itself():
    stream = io.StringIO()
    terminal = Terminal(stream, LogOptions(format="json"))
    terminal.tell("app.py: cannot be loaded", "error", "Traceback ...\n  ValueError: no\n")
    terminal.tell("ready")
    failed, fine = map(json.loads, stream.getvalue().splitlines())
    assert (failed["level"], failed["text"]) == ("ERROR", "app.py: cannot be loaded")
    assert failed["traceback"] == "Traceback ...\n  ValueError: no"
    assert (fine["level"], "traceback" in fine) == ("INFO", False)


def test_a_person_reads_the_traceback_below_the_line():
    stream = io.StringIO()
    terminal = Terminal(stream)
    terminal.tell("no", "error", "Traceback ...\n")
    terminal.started()
    terminal.tell("no", "error", "Traceback ...\n")
    first, below, log, inside = stream.getvalue().splitlines()
    assert (first, below, inside) == ("trilith: no", "Traceback ...", "  Traceback ...")
    assert log.endswith("Z ERROR trilith: no")


class Closed(Tty):
    def __init__(self):
        super().__init__()
        self.tried = 0

    def write(self, text):
        self.tried += 1
        raise OSError(5, "Input/output error")


def test_a_terminal_that_was_closed_ends_nothing():
    stream = Closed()
    terminal = Terminal(stream)
    terminal.tell("stopping")
    terminal.loading(1, 3, "ocr")
    terminal.table([row("good")])
    assert stream.tried > 2


def test_the_line_that_changes_goes_when_the_start_is_ended():
    stream = Tty()
    terminal = Terminal(stream)
    terminal.loading(1, 3, "ocr")
    terminal.stopping()
    terminal.stopping()
    assert stream.getvalue() == "loading models: 1 of 3, last ocr\r\x1b[K"


def test_a_repository_in_which_each_model_failed_is_not_partly_ready():
    line = ready(
        http="h:1", grpc="", metrics="", tls=False, repository=True, desired=[], not_ready=["a"], none_ready=True
    )
    assert line == "no model is ready: http://h:1 (try /v2)  not ready: a"


def test_a_repository_in_which_a_model_failed_is_not_simply_ready():
    def line(*not_ready):
        return ready(http="h:1", grpc="h:2", metrics="h:3", tls=False, repository=True, desired=[], not_ready=not_ready)

    assert line().startswith("ready: http://h:1")
    assert line("a", "b").startswith("partly ready: http://h:1")
    assert line("a", "b").endswith("not ready: a, b")
    assert line(*map(str, range(11))).endswith("not ready: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 ...")


def test_the_first_look_of_an_application_that_has_mounts_alone():
    def line(mounts, *, methods):
        return ready(
            http="h:1", grpc="", metrics="", tls=False, repository=False, desired=[], mounts=mounts, methods=methods
        )

    assert line(["/"], methods=False).startswith("ready: http://h:1 (try /)  mounts / (/docs, /openapi.json, ")
    assert line(["/ui"], methods=False) == "ready: http://h:1 (try /ui)  mounts /ui"
    assert line(["/ui"], methods=True) == "ready: http://h:1 (try /docs)  mounts /ui"


def test_a_page_that_needs_a_key_is_told_at_the_start(tmp_path):
    for public, needs in (("", True), ("public: [/docs]\n", True), ("public: [/docs, /openapi.json]\n", False)):
        (tmp_path / "keys.yaml").write_text(f"{public}keys: []\n")
        held = HeldKeys(tmp_path / "keys.yaml")
        line = ready(
            http="h:1",
            grpc="",
            metrics="",
            tls=False,
            repository=False,
            desired=(),
            docs_need_key=not held.docs_are_public,
        )
        assert ("it needs a key, unless the file of keys has `public: [/docs, /openapi.json]`" in line) == needs

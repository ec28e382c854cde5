"""What the command line says when it was told too little, or the wrong thing."""

from __future__ import annotations

import json

import pytest

from trilith.cli import main
from trilith.cli.serve import _is_one_model


@pytest.fixture
def say(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder: its exit status, and what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        shown = capsys.readouterr()
        return ended.value.code, shown.out + shown.err

    return run


def test_serve_without_a_target_shows_what_one_is(say):
    status, said = say("serve")
    assert status == 2
    assert "`trilith serve models/`" in said
    assert "`trilith serve app.py:Name`" in said


def test_the_folder_of_one_model_is_not_a_repository(say, tmp_path):
    (tmp_path / "models/brightness/1").mkdir(parents=True)
    (tmp_path / "models/brightness/1/model.onnx").touch()
    status, said = say("serve", "models/brightness")
    assert status == 2
    assert said == (
        "trilith: models/brightness is the folder of one model; serve the folder that it lies in: "
        "`trilith serve models`\n"
    )


@pytest.mark.parametrize(
    ("files", "one"),
    [
        (["1/model.onnx"], True),
        (["model.yaml"], True),
        (["config.pbtxt", "2/other.onnx"], True),
        (["brightness/1/model.onnx"], False),
        (["1/1/model.onnx"], False),
        (["model.yaml", "brightness/1/model.onnx"], False),
        (["brightness/model.yaml"], False),
        (["notes/model.txt"], False),
        ([], False),
    ],
)
def test_what_a_folder_of_one_model_looks_like(tmp_path, files, one):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert _is_one_model(tmp_path) is one


def test_no_server_is_not_well(say):
    assert say("status") == (1, "no server is running; start one with `trilith serve TARGET`\n")
    status, said = say("status", "--json")
    assert (status, json.loads(said)) == (1, [])

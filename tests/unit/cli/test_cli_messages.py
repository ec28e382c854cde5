"""What the command line says when it was told too little, or the wrong thing."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from trilith.cli import main, make_app
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "app:A", "--port", "80"], "there is no option --port; here it is --http-port"),
        (["serve", "app:A", "--port=80"], "there is no option --port; here it is --http-port"),
        (["serve", "app:A", "--workers", "3"], "there is no option --workers; here it is --replicas."),
        (["serve", "app:A", "--model-repo", "m"], "no option --model-repo. Did you mean --model-repository?"),
        (["serve", "m", "--http-address=0.0.0.0"], "there is no option --http-address; here it is --host."),
        (["serve", "m", "--model-store=m"], "there is no option --model-store; here it is --model-repository."),
        (["serve", "m", "--http-thread-count", "8"], "there is no option --http-thread-count: there is one loop"),
        (
            ["serve", "m", "--allow-client-shm=true"],
            "there is no option --allow-client-shm: clients send their tensors",
        ),
        (["serve", "m", "--trace-rate=1"], "there is no option --trace-rate: each answer can bring its timeline"),
        (["serve", "m", "--rate-limit=off"], "there is no option --rate-limit: there is no rate limiter yet."),
        (["serve", "app:A", "-p", "3"], "there is no option -p."),
        (["serve", "app:A", "other"], "'other' is one argument too many."),
        (
            ["serve", "m", "--strict-readiness", "false"],
            "takes no value: say --strict-readiness or --no-strict-readiness",
        ),
        (["serve", "m", "--grpc-port", "of"], 'expected a port\'s number or `off`, got "of"'),
        (["serve", "app:A", "--compat", "tri"], 'Invalid value "tri" for --compat. Choose from: "trilith", "triton".'),
        (["serv"], 'Unknown command "serv". Did you mean "serve"?'),
        (["models", "chek"], "`trilith models --help` lists what there is"),
        (["bench"], "`trilith bench --help` lists what there is"),
        (["serve", "--help=x"], "--help takes no value."),
        (["--version=x"], "--version takes no value."),
    ],
)
def test_what_no_command_understands_is_one_sentence(say, arguments, message):
    status, said = say(*arguments)
    assert status == 2
    assert message in said
    assert said.startswith("trilith: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--http-port", "65536"],
        ["--grpc-port", "-1"],
        ["--replicas", "0"],
        ["--replicas", "100000"],
        ["--repository-poll-secs", "nan"],
        ["--repository-poll-secs", "0"],
        ["--model-load-thread-count", "0"],
        ["--model-load-timeout-s", "-1"],
        ["--drain-timeout-s", "-0.5"],
        ["--drain-timeout-s", "inf"],
        ["--max-body-mb", "1008"],
        ["--max-body-mb", "1000000"],
        ["--unresponsive-timeout-s", "0"],
        ["--max-body-mb", "0"],
    ],
)
def test_numbers_out_of_their_range_are_refused_by_name(say, arguments):
    status, said = say("serve", "app:A", *arguments)
    assert status == 2
    assert said.startswith(f"trilith: {arguments[0]} must be ")
    assert said.endswith(f", got {arguments[1]}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tls-key", "key.pem"], "got --tls-key alone, give --tls-certificate too"),
        (["--tls-certificate", "c.pem"], "got --tls-certificate alone, give --tls-key too"),
        (["--tls-client-ca", "ca.pem"], "--tls-client-ca ca.pem needs --tls-certificate and --tls-key"),
        (["--grpc-port", "8000"], "must differ, got 8000, 8000 and 8002; 0 lets the system choose"),
    ],
)
def test_options_that_do_not_go_together(say, arguments, message):
    status, said = say("serve", "app:A", *arguments)
    assert (status, message in said) == (2, True)


def test_no_server_is_not_well(say):
    assert say("status") == (1, "no server is running; start one with `trilith serve TARGET`\n")
    status, said = say("status", "--json")
    assert (status, json.loads(said)) == (1, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models", "--replicas", "3"], "--replicas is for services, and models is a folder of models"),
        (["models", "--reload"], "--reload is for services"),
        (["models", "--debug"], "--debug is for services"),
        (["models", "--models", "models"], "--models is for services"),
        (
            ["app.py:A", "--model-repository", "models"],
            "--model-repository is for folders of models, and app.py:A",
        ),
        (["app.py:A", "--model-control-mode", "explicit"], "--model-control-mode is for folders of models"),
        (["app.py:A", "--load-on-demand"], "--load-on-demand is for folders of models"),
        (["app.py:A", "--exit-on-error"], "--exit-on-error is for folders of models"),
    ],
)
def test_options_that_would_do_nothing(say, tmp_path, arguments, message):
    (tmp_path / "models").mkdir()
    status, said = say("serve", *arguments)
    assert status == 2
    assert said.startswith(f"trilith: {message}")


@pytest.mark.parametrize("spelled", [["--model-repository=models"], ["--model-repository", "models"]])
def test_a_model_repository_is_what_to_serve_when_nothing_else_is(tmp_path, monkeypatch, spelled):
    asked = []
    monkeypatch.setattr("trilith.orchestration.serve_forever", lambda options: asked.append(options) or 0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "more").mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["serve", *spelled, "--model-repository", "more"])
    assert ended.value.code == 0
    assert (asked[0].target, asked[0].repository.roots) == ("models", ("more",))


def test_a_model_repository_that_is_none_is_named(say):
    assert say("serve", "--model-repository=nope") == (2, "trilith: --model-repository nope: there is no such folder\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash completes")
@pytest.mark.parametrize("words", [("trilith", "serve", "ap"), ("trilith", "bench", "http://x", "--data", "ap")])
def test_a_shell_completes_file_names_where_files_may_be_given(tmp_path, words):
    (tmp_path / "app.py").touch()
    (tmp_path / "complete.sh").write_text(make_app().generate_completion(prog_name="trilith", shell="bash"))
    script = f"""
        . ./complete.sh
        COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE="{" ".join(words)}"
        function=$(complete -p trilith | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        $function trilith ap {words[-2]}; echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "app.py\n", done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--data-log-images"], "need --data-log FOLDER"),
        (["--data-log-sample", "0.5"], "need --data-log FOLDER"),
        (["--data-log", "data", "--data-log-sample", "2"], "takes a part from 0 to 1"),
        (["--data-log", "data", "--data-log-mb", "0"], "--data-log-mb must be"),
    ],
)
def test_options_of_the_data_log(say, options, said):
    status, shown = say("serve", "app.py:Name", *options)
    assert status == 2
    assert said in shown

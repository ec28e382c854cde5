"""`trilith init`: each template is a project that passes its own tests, and that the two commands serve and call."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import environment

import trilith
from trilith.cli.init import TEMPLATES

HEAVY = {"ocr"}  # its models are those of tests/integration/ocr
NEEDS = {"ocr": "cv2", "fastapi": "fastapi"}
SOURCE = str(Path(trilith.__file__).parents[1])


def run(folder, *arguments, within_s=120, **more):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=within_s,
        env={**environment(folder), "PYTHONPATH": SOURCE, "PYTHONWARNINGS": "ignore", **more},
    )


def made(folder, template):
    """The project, and the two commands that it says are next."""
    done = run(folder, "-m", "trilith", "init", template, "project")
    assert done.returncode == 0, done.stderr
    commands = [line.strip() for line in done.stdout.partition("next:\n")[2].splitlines()]
    assert len(commands) == 2
    return folder / "project", commands


def page(folder):
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (400, 120), "white")
    ImageDraw.Draw(image).text((40, 30), "Hello world", "black", font=ImageFont.load_default(44))
    image.save(folder / "page.png")


ANSWERS = {
    "function": "hello Ann\n",
    "class": '{\n  "title": "Emma",\n  "pages": 474\n}\n',
    "pipeline": "lease\n",
    "ocr": '"text": "Hello world"',
    "fastapi": '"pages": 474',
    "from-grpc": '"text": "page"',
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_a_project_that_works(template, tmp_path, serve):
    if template in NEEDS:
        pytest.importorskip(NEEDS[template])
    project, (serving, calling) = made(tmp_path, template)
    tests = run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", within_s=240)
    assert tests.returncode == 0, tests.stdout + tests.stderr
    target = shlex.split(serving)[2]
    server = serve(str(tmp_path / target))
    if template in HEAVY:
        page(tmp_path)
    called = run(tmp_path, "-m", "trilith", *shlex.split(calling)[1:], XDG_RUNTIME_DIR=str(server.runtime_folder))
    assert called.returncode == 0, called.stderr
    assert ANSWERS[template] in called.stdout
    assert {path.name for path in project.iterdir() if path.is_file()} >= {
        "README.md",
        "app.py",
        "requirements.txt",
        "test_app.py",
    }


def test_the_first_service_has_six_lines():
    text = Path(trilith.__file__).parent.joinpath("cli/templates/function/app.py.txt").read_text()
    assert len(text.splitlines()) == 6


def test_nothing_is_overwritten(tmp_path):
    project, _ = made(tmp_path, "function")
    (project / "app.py").write_text("mine")
    done = run(tmp_path, "-m", "trilith", "init", "class", "project")
    assert done.returncode == 2
    assert "nothing is overwritten" in done.stderr
    assert (project / "app.py").read_text() == "mine"
    (tmp_path / "file").write_text("")
    assert run(tmp_path, "-m", "trilith", "init", "class", "file").returncode == 2
    (tmp_path / "empty").mkdir()
    assert run(tmp_path, "-m", "trilith", "init", "class", "empty").returncode == 0

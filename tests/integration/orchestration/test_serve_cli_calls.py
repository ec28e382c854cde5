"""`trilith call` against a running server, and what a shell offers for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import environment
from PIL import Image

APP = '''
from PIL import Image

import trilith


@trilith.service
class Desk:
    @trilith.api
    def greet(self, name: str, times: int = 1) -> str:
        """Says hello."""
        return f"hello {name}" * times

    @trilith.api
    def mirror(self, image: Image.Image) -> Image.Image:
        """Left becomes right."""
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    @trilith.api(route="/v1/who")
    def who(self) -> str:
        return trilith.context().headers.get("x-who", "nobody")

    @trilith.api
    def fail(self) -> str:
        raise ValueError("secret")
'''


@pytest.fixture
def desk(tmp_path, monkeypatch, serve):
    monkeypatch.chdir(tmp_path)
    Path("desk.py").write_text(APP)
    return serve("desk.py:Desk")


def trilith(desk, *arguments, stdin=b""):
    """Exit status, output and errors of a command on the machine where the server runs."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "trilith", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env=environment(desk.runtime_folder),
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_call_by_address_and_by_name(desk):
    url = f"http://127.0.0.1:{desk.http}"
    assert trilith(desk, "call", f"{url}/greet", "name=Ann") == (0, "hello Ann\n", "")
    assert trilith(desk, "call", f"127.0.0.1:{desk.http}/greet", "name=Ann") == (0, "hello Ann\n", "")
    assert trilith(desk, "call", "Desk/greet", "name=Ann", "times=2") == (0, "hello Annhello Ann\n", "")
    assert trilith(desk, "call", "desk/Desk/greet", "name=Ann") == (0, "hello Ann\n", "")
    assert trilith(desk, "call", f"{url}/v1/who", "--header", "X-Who: Ann") == (0, "Ann\n", "")
    assert trilith(desk, "call", "greet", "@-", "--url", url, stdin=b'{"name": "B"}') == (0, "hello B\n", "")


def test_an_image_there_and_back(desk):
    image = Image.new("RGB", (2, 1))
    image.putpixel((0, 0), (255, 0, 0))
    image.save("page.png")
    status, out, _ = trilith(desk, "call", "Desk/mirror", "image=@page.png", "-o", "out.webp")
    assert (status, out.split(":")[0]) == (0, "wrote out.webp")
    with Image.open("out.webp") as written:
        assert written.format == "WEBP"
    status, out, _ = trilith(desk, "call", "Desk/mirror", "image=@-", stdin=Path("page.png").read_bytes())
    assert (status, out.startswith("image/png, 2 x 1 pixels")) == (0, True)


def test_exit_status_says_who_is_to_blame(desk):
    assert trilith(desk, "call", "Desk/greet")[0] == 2
    assert trilith(desk, "call", "Desk/greet", "name=Ann", "times=x")[0] == 2
    assert trilith(desk, "call", "Other/greet", "--url", f"http://127.0.0.1:{desk.http}")[0] == 2
    status, _, err = trilith(desk, "call", "Desk/fail", "--json")
    assert status == 1
    assert json.loads(err)["error"]["code"] == "service_failed"
    assert "secret" not in err
    status, _, err = trilith(desk, "call", "http://127.0.0.1:1/greet", "name=Ann")
    assert status == 1
    assert "nothing answers at http://127.0.0.1:1" in err


def test_what_a_shell_offers(desk):
    def offered(*words):
        out = trilith(desk, "__complete", *words)[1]
        return [line.split("\t")[0] for line in out.partition("\x1fbegin\n")[2].splitlines()]

    assert sorted(offered("call", "")) == ["Desk/fail", "Desk/greet", "Desk/mirror", "Desk/who"]
    assert offered("call", f"http://127.0.0.1:{desk.http}/g")[0].startswith(f"http://127.0.0.1:{desk.http}/")
    assert offered("call", "Desk/greet", "") == ["name=", "times="]
    assert offered("call", "Desk/greet", "name=A", "") == ["name=", "times="]
    assert offered("call", "desk.py:Desk/greet", "") == []


def test_a_server_that_wants_a_key(tmp_path, monkeypatch, serve):
    monkeypatch.chdir(tmp_path)
    Path("desk.py").write_text(APP)
    made = subprocess.run(
        [sys.executable, "-P", "-m", "trilith", "keys", "new", "ann", "--scope", "*", "--file", "keys.yaml"],
        capture_output=True,
        text=True,
        check=True,
    )
    key = next(word for word in made.stdout.split() if word.startswith("trilith_"))
    desk = serve("desk.py:Desk", "--api-keys", "keys.yaml")
    status, _, err = trilith(desk, "call", "Desk/greet", "name=Ann")
    assert status == 2
    assert "key" in err
    assert trilith(desk, "call", "Desk/greet", "name=Ann", "--header", f"x-api-key: {key}")[:2] == (0, "hello Ann\n")
    monkeypatch.setenv("TRILITH_API_KEY", key)
    assert trilith(desk, "call", "Desk/greet", "name=Ann")[:2] == (0, "hello Ann\n")
    assert "Desk/greet" in trilith(desk, "__complete", "call", "")[1]

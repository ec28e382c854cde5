"""What callers upload is gone when it is not needed any more, however its replica ended."""

from __future__ import annotations

import os
import signal
import threading

from live_server import APPS

BOUNDARY = b"b"
FORM = {"content-type": "multipart/form-data; boundary=b"}


def form(**fields):
    parts = [
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="page.txt"\r\n\r\nwhat a page says\r\n',
        *(
            b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name.encode(), value.encode())
            for name, value in fields.items()
        ),
    ]
    return b"".join(parts) + b"--b--\r\n"


def test_a_replica_that_is_killed_leaves_no_upload(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left = tmp_path / "trilith-uploads-0-left"  # by a server that was killed: there is no process 0
    (left / "1").mkdir(parents=True)
    server = serve(f"{APPS}/uploads.py:Uploads")
    assert not left.exists()

    [pid] = server.replica_pids("Uploads")
    body = form(until=str(tmp_path / "never"))
    holding = threading.Thread(target=lambda: server.post("/hold", body=body, headers=FORM))
    holding.start()
    server.wait_until(lambda: list(tmp_path.rglob("page.txt")))
    [saved] = tmp_path.rglob("page.txt")
    [of_server] = tmp_path.glob("trilith-uploads-*")
    assert of_server in saved.parents
    os.kill(pid, signal.SIGKILL)
    holding.join(20)
    server.wait_until(lambda: not list(of_server.iterdir()))

    server.wait_until(lambda: server.replica_pids("Uploads") not in ([], [pid]))
    status, (place, _) = server.post("/place", body=form(), headers=FORM)
    assert status == 200
    assert of_server in type(of_server)(place).parents
    assert not list(tmp_path.rglob("page.txt"))
    assert server.terminate() == 0
    assert list(tmp_path.glob("trilith-*")) == []


def test_a_folder_that_was_tidied_up_is_made_again(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = serve(f"{APPS}/uploads.py:Uploads")
    for folder in tmp_path.glob("trilith-uploads-*"):
        folder.rmdir()
    status, (place, _) = server.post("/place", body=form(), headers=FORM)
    assert status == 200
    assert place.startswith(str(tmp_path / "trilith-uploads-"))

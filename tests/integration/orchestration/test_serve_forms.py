"""Forms that are none: the client is told what is wrong, and does not get to write the log."""

from __future__ import annotations

from live_server import APPS


def test_a_form_that_is_none_is_refused_and_not_logged(serve):
    server = serve(f"{APPS}/uploads.py:Uploads")
    kind = {"content-type": "multipart/form-data; boundary=b"}
    for number in range(5):
        status, answer = server.post("/place", body=b"--b\r\nx;\0: %d" % number, headers=kind)
        assert (status, answer["error"]["code"]) == (400, "invalid_input")
    assert server.terminate() == 0
    assert "multipart" not in server.output

"""Forms and pictures that are none: the client is told what is wrong, and does not get to write the log."""

from __future__ import annotations

import io
import struct

from live_server import APPS
from PIL import Image


def test_a_form_that_is_none_is_refused_and_not_logged(serve):
    server = serve(f"{APPS}/uploads.py:Uploads")
    kind = {"content-type": "multipart/form-data; boundary=b"}
    for number in range(5):
        status, answer = server.post("/place", body=b"--b\r\nx;\0: %d" % number, headers=kind)
        assert (status, answer["error"]["code"]) == (400, "invalid_input")
    assert server.terminate() == 0
    assert "multipart" not in server.output


def test_a_picture_that_is_none_is_refused_and_not_logged(serve, tmp_path):
    source = tmp_path / "pictures.py"
    source.write_text(
        "import trilith\nfrom PIL import Image\n"
        "@trilith.service\ndef width(image: Image.Image) -> int:\n    return image.width\n"
    )
    server = serve(f"{source}:width")
    plain, packed = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (9, 7)).save(plain, "TIFF")
    Image.effect_noise((99, 99), 50).save(packed, "TIFF", compression="tiff_lzw")
    wide, twice = struct.pack("<HHI", 256, 4, 1), struct.pack("<HHI", 256, 4, 2)  # the tag ImageWidth, once or twice
    broken = bytearray(packed.getvalue())
    broken[200:900] = bytes(700)
    assert wide in plain.getvalue()
    for body in (bytes(broken), plain.getvalue().replace(wide, twice)):
        status, answer = server.post("/width", body=body, headers={"content-type": "image/tiff"})
        assert (status, answer["error"]["code"]) == (400, "invalid_input")
    assert server.terminate() == 0
    assert not [line for line in server.lines if any(word in line for word in ("Warning", "LZW", ".tif"))]

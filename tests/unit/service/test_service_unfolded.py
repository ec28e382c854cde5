"""Many small files that become large: what one call may become has one bound."""

import base64
import io

import msgspec
import numpy as np
import pytest
from PIL import Image

import trilith
from trilith.errors import InvalidInput, PayloadTooLarge
from trilith.service import spec_of
from trilith.service.codecs import images, unfolded
from trilith.service.codecs.request import RequestDecoder


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(unfolded, "MAX_CALL_BYTES", 100 * 100 * 4 * 3)


def png(side=100, mode="RGB"):
    stream = io.BytesIO()
    Image.new(mode, (side, side)).save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.parametrize(("mode", "fit"), [("RGB", 3), ("RGBA", 3), ("I;16", 3), ("L", 12), ("1", 12)])
def test_pictures_of_one_call_have_one_bound(small, mode, fit):
    file = png(mode=mode)
    with unfolded.one_call():
        for _ in range(fit):
            images.decode_image(file)
        with pytest.raises(PayloadTooLarge, match="one call may take"):
            images.decode_image(file)
    with unfolded.one_call():
        images.decode_image(file)
    for _ in range(fit + 1):
        images.decode_image(file)  # items of a stream are read one by one


@trilith.service
class Pictures:
    @trilith.api
    def count(self, pictures: list[Image.Image], more: Image.Image | None = None) -> int:
        return len(pictures)


def decode(body, content_type):
    signature = spec_of(Pictures).methods["count"].signature
    return RequestDecoder(signature, "count").decode(content_type, [body])


def as_json(pictures, more):
    one = base64.b64encode(png()).decode()
    return msgspec.json.encode({"pictures": [one] * pictures} | ({"more": one} if more else {})), "application/json"


def as_form(pictures, more):
    names = ["pictures"] * pictures + ["more"] * more
    parts = [
        b'--B\r\ncontent-disposition: form-data; name="%b"; filename="a.png"\r\ncontent-type: image/png\r\n\r\n%b\r\n'
        % (name.encode(), png())
        for name in names
    ]
    return b"".join(parts) + b"--B--\r\n", "multipart/form-data; boundary=B"


@pytest.mark.parametrize("write", [as_json, as_form])
def test_it_holds_for_all_arguments_of_a_call_together(small, write):
    for pictures, more in ((3, False), (2, True)):
        arguments = decode(*write(pictures, more))
        found = [*arguments.args, *arguments.kwargs.values()]
        assert len(found[0]) == pictures
    for pictures, more in ((4, False), (3, True)):
        # What is wrong with a value in JSON is that value's matter: there it is said with its path.
        with pytest.raises((PayloadTooLarge, InvalidInput), match="one call may take"):
            decode(*write(pictures, more))


def test_frames_of_one_call_have_one_bound(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from trilith.service.codecs.tables import checked

    monkeypatch.setattr(unfolded, "MAX_CALL_BYTES", 5000)
    table = pa.table({"a": np.arange(250)})  # 2,000 bytes
    with unfolded.one_call():
        checked(table)
        checked(table)
        with pytest.raises(PayloadTooLarge, match="one call may take"):
            checked(table)

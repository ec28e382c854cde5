"""What `Annotated` asks of arrays, frames and files is asked over gRPC too."""

import io
import pathlib
from typing import Annotated

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.typing import NDArray
from PIL import Image
from rpc_service import PROTO, message

import trilith
from trilith.errors import InvalidInput, UnsupportedMediaType
from trilith.service.codecs import media, table_files

People = Annotated[pd.DataFrame, trilith.Frame(columns={"name": "str", "age": "int64"})]


@trilith.service
class Asks:
    @trilith.api
    def older(self, people: People) -> People:
        return people.assign(age=people["age"] + 1)

    @trilith.api
    async def norm(self, points: Annotated[NDArray[np.float32], trilith.Shape(None, 2)]) -> NDArray[np.float32]:
        return np.linalg.norm(points, axis=1)

    @trilith.api
    def sound(self, sound: Annotated[pathlib.Path, trilith.ContentType("audio/*")]) -> str:
        return sound.suffix

    @trilith.api
    def picture(self, image: Annotated[Image.Image, trilith.ContentType("image/png")]) -> int:
        return image.width

    @trilith.api
    async def document(self, data: Annotated[bytes, trilith.ContentType("application/pdf")]) -> int:
        return len(data)


def call(serve, method: str, request: str, **fields):
    body = message(f"asks.{request}", Asks)(**fields).SerializeToString()
    return serve(Asks, lambda hosted: hosted.body(method, body, PROTO))


def frame(**columns) -> bytes:
    return table_files.to_file(pa.table(columns), media.ARROW)


def test_frames_are_files_of_arrow_or_parquet(serve):
    sink = io.BytesIO()
    pa.parquet.write_table(pa.table({"age": [1], "name": ["a"]}), sink)
    for content, content_type in (
        (frame(name=["a"], age=[1]), media.ARROW),
        (sink.getvalue(), ""),
        (b"name,age\na,1\n", media.CSV),
    ):
        raw = call(serve, "older", "OlderRequest", people={"content": content, "content_type": content_type})
        answered = message("asks.OlderResponse", Asks).FromString(raw).result
        assert answered.content_type == media.ARROW
        assert table_files.from_file(answered.content, media.ARROW, None).to_pydict() == {"name": ["a"], "age": [2]}
    with pytest.raises(InvalidInput, match="column `age` is missing"):
        call(serve, "older", "OlderRequest", people={"content": frame(name=["a"])})


def test_shapes_and_types_of_files(serve):
    tensor = {"dtype": "float32", "shape": [1, 3], "data": np.zeros(3, np.float32).tobytes()}
    with pytest.raises(InvalidInput, match=r"shape \(any, 2\), got \(1, 3\)"):
        call(serve, "norm", "NormRequest", points=tensor)
    for method, request, fields in (
        ("sound", "SoundRequest", {"sound": {"content": b"MZ", "content_type": "audio/wav"}}),
        ("picture", "PictureRequest", {"image": {"content": b"GIF89a", "content_type": "image/png"}}),
    ):
        with pytest.raises(UnsupportedMediaType, match="expected a file of the type"):
            call(serve, method, request, **fields)
    with pytest.raises(InvalidInput, match="expected a file of the type application/pdf"):
        call(serve, "document", "DocumentRequest", data=b"\x89PNG\r\n\x1a\n")
    assert call(serve, "document", "DocumentRequest", data=b"%PDF-1.7")

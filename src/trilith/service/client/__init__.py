"""A client of a running service: its methods, with signatures and documentation, read from `/openapi.json`.

Type-checkers see each method as `Any`: what there is is known when the server was asked.

    with trilith.client("http://127.0.0.1:8000") as ocr:
        lines = ocr.read(image=Path("page.png"))

    async with trilith.client("http://127.0.0.1:8000", asynchronous=True) as ocr:
        lines = await ocr.read(image)

Arguments are numpy arrays, PIL images, bytes, paths, dataclasses, pydantic models or JSON types; results are numpy
arrays, PIL images, bytes or JSON types. Errors are the classes of `trilith.errors`.

For the command line there is what calls without such an object: `remote_methods` and `hosted_methods`, whose answers
stay as they came, `read_arguments` of texts, and `pieces_of` an answer.
"""

from __future__ import annotations

from trilith.service.client.answers import Piece, json_of, pieces_of, wanted_type
from trilith.service.client.connect import AsyncClient, Client, client
from trilith.service.client.operations import Operation
from trilith.service.client.raw import Methods, RawAnswer, hosted_methods, remote_methods
from trilith.service.client.stubs import stub_source
from trilith.service.client.texts import read_arguments

__all__ = [
    "AsyncClient",
    "Client",
    "Methods",
    "Operation",
    "Piece",
    "RawAnswer",
    "client",
    "hosted_methods",
    "json_of",
    "pieces_of",
    "read_arguments",
    "remote_methods",
    "stub_source",
    "wanted_type",
]

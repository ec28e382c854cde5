"""A client of a running service: its methods, with signatures and documentation, read from `/openapi.json`.

Type-checkers see each method as `Any`: what there is is known when the server was asked.

    with trilith.client("http://127.0.0.1:8000") as ocr:
        lines = ocr.read(image=Path("page.png"))

    async with trilith.client("http://127.0.0.1:8000", asynchronous=True) as ocr:
        lines = await ocr.read(image)

Arguments are numpy arrays, PIL images, bytes, paths, dataclasses, pydantic models or JSON types; results are numpy
arrays, PIL images, bytes or JSON types. Errors are the classes of `trilith.errors`.
"""

from __future__ import annotations

from trilith.service.client.connect import AsyncClient, Client, client

__all__ = ["AsyncClient", "Client", "client"]

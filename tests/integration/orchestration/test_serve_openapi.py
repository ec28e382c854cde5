"""What the document says, the server does: schemathesis makes requests of it and compares the answers with it."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from live_server import APPS
from PIL import Image
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]

EXACT = ["/number", "/text", "/root", "/animal", "/tree", "/person", "/pair", "/anything"]
"""What the document says of these is all that there is to say: whatever it allows is accepted."""


def png(size: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (size, size)).save(stream, "PNG")
    return stream.getvalue()


FILES = {
    "image/*": st.builds(png, st.integers(1, 3)) | st.binary(max_size=9),
    "audio/*": st.just(b"RIFF\0\0\0\0WAVEfmt ") | st.binary(max_size=9),
    "application/x-npy": st.binary(max_size=99),
    "application/octet-stream": st.binary(max_size=99),
    "text/csv": st.sampled_from([b"a,b\n1,x\n", b"name,age,height,left\nx,1,2,3\n"]) | st.binary(max_size=99),
    "application/vnd.apache.parquet": st.binary(max_size=99),
    "application/vnd.apache.arrow.stream": st.binary(max_size=99),
}


def check_body(document: dict[str, Any], path: str, response: schemathesis.Response) -> None:
    """Compares JSON with its schema; schemathesis's own check does not know `prefixItems` of tuples."""
    media = response.headers["content-type"][0].partition(";")[0]
    if media == "application/json":
        answers = document["paths"][path]["post"]["responses"][str(response.status_code)]
        schema = {**answers["content"][media]["schema"], "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(response.json())


def as_integers(value: Any) -> Any:
    """The value with 7 instead of 7.0, which JSON Schema calls an integer and a strict reader does not."""
    if isinstance(value, dict):
        return {key: as_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def try_out(operation: Any, document: dict[str, Any]) -> set[int]:
    """The statuses of some requests, each answer of which is as the document says."""
    seen: set[int] = set()

    @settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(operation.as_strategy())
    def check(case):
        case.body = as_integers(case.body)
        response = case.call()
        seen.add(response.status_code)
        case.validate_response(response, checks=CHECKS)
        check_body(document, operation.path, response)

    check()
    return seen


@pytest.mark.timeout(120)
def test_each_answer_is_one_that_the_document_names(serve):
    server = serve(f"{APPS}/kinds.py:Kinds")
    for media, bodies in FILES.items():
        schemathesis.openapi.media_type(media, bodies)
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.http}/openapi.json")
    document = json.loads(server.get("/openapi.json")[1])
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 20
    statuses: dict[str, set[int]] = {}
    for operation in operations:
        statuses[operation.path] = try_out(operation, document)
    assert [path for path in EXACT if statuses[path] != {200}] == []
    assert [path for path, seen in statuses.items() if 200 not in seen] == []
    assert server.process.poll() is None

"""One request before the load: is anybody there, does it like what we send, does it tell its timeline?"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from trilith.errors import SetupError
from trilith.measure.load.target import TIMELINE_HEADER, Body, Target

_EXCERPT_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """What came back.

    Attributes:
        status: HTTP status.
        content: the body.
        has_timeline: whether the answer carries a timeline.
    """

    status: int
    content: bytes
    has_timeline: bool

    @property
    def excerpt(self) -> str:
        """The beginning of the body on one line, for a message."""
        return " ".join(self.content[: 4 * _EXCERPT_CHARACTERS].decode("utf-8", "replace").split())[
            :_EXCERPT_CHARACTERS
        ]


def probe(
    target: Target,
    method: str,
    body: Body | None,
    headers: Sequence[tuple[str, str]] = (),
    *,
    timeout_s: float = 30.0,
) -> ProbeAnswer:
    """Sends one request and waits for the answer. Blocks.

    Raises:
        SetupError: no HTTP answer comes; the message says why and what to check.
    """
    lines = {TIMELINE_HEADER.decode(): "1"}
    if body is not None and body.content_type:
        lines["content-type"] = body.content_type
    lines.update((name.lower(), value) for name, value in headers)
    connection = (
        http.client.HTTPSConnection(target.host, target.port, timeout=timeout_s, context=ssl.create_default_context())
        if target.tls
        else http.client.HTTPConnection(target.host, target.port, timeout=timeout_s)
    )
    try:
        connection.request(method, target.path, body=body.content if body is not None else None, headers=lines)
        answer = connection.getresponse()
        return ProbeAnswer(
            status=answer.status,
            content=answer.read(),
            has_timeline=answer.headers.get(TIMELINE_HEADER.decode()) is not None,
        )
    except TimeoutError as error:
        raise SetupError(
            f"{target.url} gave no answer within {timeout_s:g} s; is it busy, or --timeout too short?"
        ) from error
    except ConnectionRefusedError as error:
        raise SetupError(
            f"nothing listens at {target.host}:{target.port} (connection refused); start the server, or check the URL"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise SetupError(f"{target.url} gives no HTTP answer: {reason}") from error
    finally:
        connection.close()


def example_body(target: Target, *, timeout_s: float = 5.0) -> Body | None:
    """The example body for the endpoint's POST in the server's `/openapi.json`; None when there is none."""
    document = Target(host=target.host, port=target.port, tls=target.tls, path="/openapi.json")
    answer = probe(document, "GET", None, timeout_s=timeout_s)
    if answer.status != 200:
        return None
    try:
        description = msgspec.json.decode(answer.content)
    except msgspec.DecodeError:
        return None
    return example_in(description, target.path.partition("?")[0])


def example_in(description: Any, path: str) -> Body | None:
    """The example body for `POST path` in an OpenAPI document, as JSON; None when there is none."""
    media = _walk(description, "paths", path, "post", "requestBody", "content", "application/json")
    for example in _examples(media):
        return Body(content=msgspec.json.encode(example), content_type="application/json")
    return None


def _examples(media: Any) -> list[Any]:
    """The examples of a media type object, the most specific first (OpenAPI 3.1, section 4.8.14)."""
    if not isinstance(media, Mapping):
        return []
    found = [media["example"]] if "example" in media else []
    named = media.get("examples")
    if isinstance(named, Mapping):
        found += [entry["value"] for entry in named.values() if isinstance(entry, Mapping) and "value" in entry]
    schema = media.get("schema")
    if isinstance(schema, Mapping):
        found += [schema["example"]] if "example" in schema else []
        found += list(schema["examples"]) if isinstance(schema.get("examples"), list) else []
    return found


def _walk(document: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document

"""A body for an endpoint, from an OpenAPI document: its example, or the smallest value of its schema. Pure.

Rule: an image or a file cannot be made up. Such an endpoint is not loaded with what it would only refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trilith.errors import InvalidConfig
from trilith.measure.load.target import Body

_JSON: Final = "application/json"
_FILES: Final = ("application/octet-stream", "multipart/form-data")
_DEEPEST: Final = 12
_OF_TYPE: Final[dict[str, Any]] = {"integer": 1, "number": 1.0, "string": "text", "boolean": True, "null": None}


def example_in(document: Any, path: str) -> Body | None:
    """The body for `POST path`, as JSON; None when the document has neither an example nor a schema for it.

    Where the document has a `POST` of that path without a body, and no `GET`, it is one of no bytes.

    Raises:
        InvalidConfig: the endpoint takes an image or a file.
    """
    content = _walk(document, "paths", path, "post", "requestBody", "content")
    if not isinstance(content, Mapping):
        methods = _walk(document, "paths", path)
        posts = isinstance(methods, Mapping) and "post" in methods and "get" not in methods
        return Body(content=b"", content_type="") if posts else None
    media = content.get(_JSON)
    try:
        if not isinstance(media, Mapping):
            raise _NotMadeUp(_of_types(content))
        examples = _examples(media)
        if examples:
            return _json(examples[0])
        schema = media.get("schema")
        return _json(_smallest(document, schema, 0)) if isinstance(schema, Mapping) and schema else None
    except _NotMadeUp as takes:
        raise InvalidConfig(f"give --data FILE: POST {path} takes {takes}") from None


class _NotMadeUp(Exception):
    """What the endpoint takes instead of JSON: `an image`."""


def _of_types(content: Mapping[str, Any]) -> str:
    types = [str(media) for media in content]
    if any(media.startswith("image/") for media in types):
        return "an image"
    return "a file" if any(media in _FILES for media in types) else f"{' or '.join(types) or 'no JSON'}"


def _json(value: Any) -> Body:
    return Body(content=msgspec.json.encode(value), content_type=_JSON)


def _examples(media: Mapping[str, Any]) -> list[Any]:
    """The examples of a media type object, the most specific first (OpenAPI 3.1, section 4.8.14)."""
    found = [media["example"]] if "example" in media else []
    named = media.get("examples")
    if isinstance(named, Mapping):
        found += [entry["value"] for entry in named.values() if isinstance(entry, Mapping) and "value" in entry]
    schema = media.get("schema")
    return found + (_schema_examples(schema) if isinstance(schema, Mapping) else [])


def _schema_examples(schema: Mapping[str, Any]) -> list[Any]:
    listed = schema.get("examples")
    found = [schema[key] for key in ("example", "const", "default") if key in schema]
    return found + (list(listed) if isinstance(listed, list) else [])


def _smallest(document: Any, schema: Any, depth: int) -> Any:
    """A value that a schema of the usual form allows: required properties, one item, the first choice."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return None
    if isinstance(schema.get("$ref"), str):
        return _smallest(document, _walk(document, *schema["$ref"].removeprefix("#/").split("/")), depth + 1)
    given = _schema_examples(schema)
    if given:
        return given[0]
    if "contentEncoding" in schema or schema.get("format") == "binary":
        raise _NotMadeUp("an image" if str(schema.get("contentMediaType")).startswith("image/") else "a file")
    for choice in ("enum", "anyOf", "oneOf", "allOf"):
        options = schema.get(choice)
        if isinstance(options, list) and options:
            return options[0] if choice == "enum" else _smallest(document, options[0], depth + 1)
    return _smallest_of_type(document, schema, depth)


def _smallest_of_type(document: Any, schema: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "array":
        items = schema.get("prefixItems")
        if isinstance(items, list):
            return [_smallest(document, item, depth + 1) for item in items]
        return [_smallest(document, schema.get("items"), depth + 1)] * max(1, int(schema.get("minItems", 1)))
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {name: _smallest(document, properties.get(name), depth + 1) for name in schema.get("required", [])}
    if kind in ("integer", "number") and "minimum" in schema:
        return schema["minimum"]
    return _OF_TYPE.get(kind) if isinstance(kind, str) else None


def _walk(document: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document

"""A body for an endpoint, from an OpenAPI document: its example, or the smallest value of its schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trilith.measure.load.target import Body

_JSON: Final = "application/json"
_DEEPEST: Final = 12
_OF_TYPE: Final[dict[str, Any]] = {"integer": 1, "number": 1.0, "string": "text", "boolean": True, "null": None}


def example_in(document: Any, path: str) -> Body | None:
    """The body for `POST path`, as JSON; None when the document has neither an example nor a schema for it."""
    media = _walk(document, "paths", path, "post", "requestBody", "content", _JSON)
    if not isinstance(media, Mapping):
        return None
    examples = _examples(media)
    if examples:
        return _json(examples[0])
    schema = media.get("schema")
    return _json(_smallest(document, schema, 0)) if isinstance(schema, Mapping) and schema else None


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

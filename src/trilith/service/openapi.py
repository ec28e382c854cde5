"""The OpenAPI 3.1 document of an application. Made of its description alone: no user code is loaded.

`x-trilith` carries what OpenAPI has no word for (dtypes, which parameter a raw body is): Trilith's client reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trilith import errors
from trilith.service.describe import (
    AppDescription,
    MethodDescription,
    ParameterDescription,
    PartDescription,
    ValueDescription,
)
from trilith.wire.http_status import status_of

_FORM: Final = "multipart/form-data"
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_SCALARS: Final = ("string", "integer", "number", "boolean", "null")
_BINARY_KINDS: Final = ("image", "bytes", "file")
_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "title": "Error",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "request_id"],
            "properties": {
                "code": {"type": "string", "description": "a stable word that a program can act on"},
                "message": {"type": "string", "description": "what was expected, what came, what to do"},
                "request_id": {"type": "string", "description": "the same id is in the server's log"},
            },
        }
    },
}
_FAILURES: Final[dict[type[errors.TrilithError], str]] = {
    errors.InvalidInput: "The request is not what the method declares.",
    errors.PayloadTooLarge: "The body is over the server's limit.",
    errors.NotAcceptable: "`Accept` has none of the content types that the method answers with.",
    errors.UnsupportedMediaType: "The content type is not one that the method reads.",
    errors.QueueFull: "Too many requests are waiting; `Retry-After` says when to come back.",
    errors.ServiceError: "The method failed.",
    errors.NoReadyReplica: "Nothing that could run the request is ready.",
    errors.DeadlineExceeded: "The time limit passed.",
}


_ACCESS: Final[dict[type[errors.TrilithError], str]] = {
    errors.Unauthenticated: "No key was sent, or one that is not known or has expired.",
    errors.Forbidden: "The key does not open this method.",
}
_KEY_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def openapi_document(description: AppDescription, *, version: str = "1", keys: bool = False) -> dict[str, Any]:
    """The document, JSON-able.

    Args:
        description: of the application.
        version: the application's own version.
        keys: callers need an API key.
    """
    failures = {**_ACCESS, **_FAILURES} if keys else _FAILURES
    paths = {}
    for method in description.root.methods:
        for position, route in enumerate(method.routes):
            paths[route] = {"post": _operation(description, method, failures, alias=position > 0)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": description.name,
            "version": version,
            **({"description": description.root.documentation} if description.root.documentation else {}),
        },
        "paths": paths,
        "components": {
            "schemas": {**description.definitions, "TrilithError": _ERROR},
            **({"securitySchemes": _KEY_SCHEMES} if keys else {}),
        },
        **({"security": [{name: []} for name in _KEY_SCHEMES]} if keys else {}),
        "x-trilith": {"services": [service.name for service in description.services]},
        **({"x-trilith-mounts": _mounts(description)} if description.root.mounts else {}),
    }


def _mounts(description: AppDescription) -> list[dict[str, str]]:
    """What answers HTTP by itself, and has documents of its own, if any."""
    return [
        {"path": mount.path, "name": mount.name, **({"description": text} if (text := mount.documentation) else {})}
        for mount in description.root.mounts
    ]


def _operation(
    description: AppDescription,
    method: MethodDescription,
    failures: Mapping[type[errors.TrilithError], str],
    *,
    alias: bool,
) -> dict[str, Any]:
    summary, _, rest = method.documentation.partition("\n")
    responses = {
        str(status_of(kind)): {
            "description": text,
            "content": {_JSON: {"schema": {"$ref": "#/components/schemas/TrilithError"}}},
        }
        for kind, text in failures.items()
    }
    operation: dict[str, Any] = {
        "operationId": f"{description.name}.{method.name}" + (".alias" if alias else ""),
        "summary": summary or method.name,
        "responses": {"200": {"description": "The result.", "content": _answers(method)}, **responses},
        "x-trilith": {
            "method": method.name,
            "alias": alias,
            "root": method.root,
            "raw": method.raw,
            "npy": method.npy,
            "frame": method.frame,
            "parameters": [_extension(parameter) for parameter in method.parameters],
            "result": {
                "kind": method.result.kind,
                "many": method.result.many,
                "dtype": method.result.dtype,
                "library": method.result.library,
                "form": method.result.form,
                "parts": {name: msgspec.to_builtins(part) for name, part in method.result.parts.items()},
            },
            "timeout_s": method.timeout_s,
            "idempotent": method.idempotent,
            "streams": method.streams,
            "taken": _extension(method.taken) if method.taken is not None else None,
        },
    }
    if rest.strip():
        operation["description"] = rest.strip()
    query = _query(method)
    if query:
        operation["parameters"] = query
    if method.taken is not None:
        item = method.taken.value.schema
        content = {media: _items(media, item) for media in method.accepts}
        operation["requestBody"] = {"required": True, "description": "The items, as a stream.", "content": content}
    elif method.parameters:
        required = any(parameter.required for parameter in method.parameters)
        operation["requestBody"] = {"required": required, "content": _bodies(method)}
    return operation


def _query(method: MethodDescription) -> list[dict[str, Any]]:
    """What the query string gives beside a body that is one parameter's whole value.

    Methods whose parameters are all JSON have none here: what an object in the body says need not be said twice.
    """
    if method.taken is not None:
        return [
            {
                "name": parameter.name,
                "in": "query",
                "required": parameter.required,
                **_in_query(_with_default(parameter)),
            }
            for parameter in method.parameters
            if parameter.value.kind == "json"
        ]
    whole = [name for name in (method.raw, method.npy, method.frame) if name]
    if not whole:
        return []
    return [
        {
            "name": parameter.name,
            "in": "query",
            "description": f"Beside a body that is `{'` or `'.join(whole)}` itself; not beside JSON or a form.",
            **_in_query(_with_default(parameter)),
        }
        for parameter in method.parameters
        if parameter.value.kind == "json" and parameter.name not in whole
    ]


def _in_query(schema: dict[str, Any]) -> dict[str, Any]:
    """How a value stands in a query string: a scalar as its text, anything else as JSON."""
    choices = schema.get("anyOf", [schema])
    if all(choice.get("type") in _SCALARS for choice in choices):
        return {"schema": schema}
    return {"content": {_JSON: {"schema": schema}}}


def _extension(parameter: ParameterDescription) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "kind": parameter.value.kind,
        "many": parameter.value.many,
        "dtype": parameter.value.dtype,
        "required": parameter.required,
        "default": parameter.default,
        "keyword_only": parameter.keyword_only,
        "upload": parameter.value.upload,
        "schema": parameter.value.schema,
    }


def _bodies(method: MethodDescription) -> dict[str, Any]:
    return {media: {"schema": _body(method, media)} for media in method.accepts}


def _body(method: MethodDescription, media: str) -> dict[str, Any]:
    if media == _JSON:
        if method.root:
            return method.parameters[0].value.schema
        return _object(method.parameters, {p.name: _with_default(p) for p in method.parameters})
    if media == _FORM:
        return _object(method.parameters, {p.name: _form_field(p.value) for p in method.parameters})
    if media == _TEXT:
        return {"type": "string"}
    return _file(media)


def _object(parameters: list[ParameterDescription], properties: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [parameter.name for parameter in parameters if parameter.required]
    return {**found, "required": required} if required else found


def _with_default(parameter: ParameterDescription) -> dict[str, Any]:
    if parameter.required or parameter.default is None:
        return parameter.value.schema
    return {**parameter.value.schema, "default": parameter.default}


def _file(media: str) -> dict[str, Any]:
    return {"type": "string", "format": "binary", "contentMediaType": media}


def _form_field(value: ValueDescription) -> dict[str, Any]:
    if value.kind == "frame":
        one = {"anyOf": [_file("application/octet-stream"), value.schema]}
        return {"type": "array", "items": one, "minItems": 1} if value.many else one
    if value.upload:
        return {"anyOf": [_file("image/*" if value.upload == "image" else "application/octet-stream"), value.schema]}
    if value.kind not in _BINARY_KINDS:
        return value.schema
    one = _file("image/*" if value.kind == "image" else "application/octet-stream")
    # A form cannot say that a list is empty.
    return {"type": "array", "items": one, "minItems": 1} if value.many else one


def _items(media: str, item: dict[str, Any]) -> dict[str, Any]:
    """What a stream is: its text as a whole, and under `x-itemSchema` one item, for which OpenAPI 3.1 has no word."""
    if media == "application/octet-stream":
        return {"schema": _file(media)}
    return {"schema": {"type": "string"}, "x-itemSchema": item}


def _answers(method: MethodDescription) -> dict[str, Any]:
    if method.streams:
        return {media: _items(media, method.result.schema) for media in method.offers}
    return {media: {"schema": _answer(method, media)} for media in method.offers}


def _answer(method: MethodDescription, media: str) -> dict[str, Any]:
    if media == _JSON:
        return method.result.schema
    if media == _FORM:
        return _parts(method.result)
    return {"type": "string"} if media == _TEXT else _file(media)


def _parts(result: ValueDescription) -> dict[str, Any]:
    """The schema of an answer of several parts: a form, whose fields are the parts."""
    fields = {name: _part(part) for name, part in result.parts.items()}
    if result.form == "mapping":
        return {"type": "object", "additionalProperties": next(iter(fields.values()))}
    return {"type": "object", "properties": fields}


def _part(part: PartDescription) -> dict[str, Any]:
    if part.kind not in _BINARY_KINDS:
        return {}
    one = _file("image/*" if part.kind == "image" else "application/octet-stream")
    return {"type": "array", "items": one} if part.many else one

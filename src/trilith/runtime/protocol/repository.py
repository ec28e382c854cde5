"""The model repository extension: index, load and unload, over HTTP and over gRPC.

Rule 1: a request that names a repository is refused, as Triton refuses it: models are named without one.
Rule 2: why a load failed is told without the files of this machine, unless whole causes are asked for.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import orjson

from trilith.errors import InvalidInput, SetupError, Unsupported
from trilith.runtime.loading import LoadFailed
from trilith.runtime.protocol.port import RepositoryPort
from trilith.runtime.protocol.routes import Route
from trilith.runtime.public_cause import public_cause
from trilith.wire.oip_json import loads
from trilith.wire.oip_messages import service_messages

HTTP_ENDPOINTS: Final = frozenset(("repository_index", "repository_load", "repository_unload"))
_FILE: Final = "file:"
_LONGEST_BLANK: Final = 1000  # a longer body is no longer taken for none


async def answer_http(
    repository: RepositoryPort, route: Route, body: bytes | memoryview, *, whole_causes: bool = False
) -> bytes:
    """The body of the answer to one of `HTTP_ENDPOINTS`; status 200.

    Args:
        repository: the models.
        route: the endpoint.
        body: what was sent.
        whole_causes: whether it is told with paths and tracebacks why a load failed.

    Raises:
        TrilithError: why there is none.
    """
    _refuse_repository(route.repository)
    message = _message(body)
    if route.endpoint == "repository_index":
        return orjson.dumps(await repository.index(ready_only=_flag(message, "ready")))
    parameters = message.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InvalidInput("Invalid value for 'parameters': expected a JSON object")
    if route.endpoint == "repository_load":
        given = {key: _decoded(key, value) for key, value in parameters.items()}
        await _load(repository, route.model, given, whole_causes=whole_causes)
    else:
        await repository.unload(route.model, dependents=_flag(parameters, "unload_dependents"))
    return b"{}"


async def _load(
    repository: RepositoryPort, name: str, parameters: Mapping[str, str | bytes], *, whole_causes: bool
) -> None:
    try:
        await repository.load(name, parameters)
    except (SetupError, InvalidInput) as error:
        if whole_causes:
            raise
        kind = InvalidInput if isinstance(error, InvalidInput) else SetupError
        raise kind(error.public if isinstance(error, LoadFailed) else public_cause(error.message, name)) from error


def grpc_methods(
    repository: RepositoryPort, *, whole_causes: bool = False
) -> dict[bytes, Callable[[Any], Coroutine[Any, Any, Any]]]:
    """The methods of the gRPC service, by name: each takes its request message and gives its response message.

    `whole_causes`: see `answer_http`.
    """

    async def index(request: Any) -> Any:
        _refuse_repository(request.repository_name)
        models = await repository.index(ready_only=request.ready)
        return service_messages().RepositoryIndexResponse(models=models)

    async def load(request: Any) -> Any:
        _refuse_repository(request.repository_name)
        given = {key: _sent(key, value) for key, value in request.parameters.items()}
        await _load(repository, request.model_name, given, whole_causes=whole_causes)
        return service_messages().RepositoryModelLoadResponse()

    async def unload(request: Any) -> Any:
        _refuse_repository(request.repository_name)
        chosen = request.parameters.get("unload_dependents")
        if chosen is not None and chosen.WhichOneof("parameter_choice") != "bool_param":
            raise InvalidInput("invalid value type for 'unload_dependents' parameter, expected bool_param.")
        await repository.unload(request.model_name, dependents=chosen is not None and chosen.bool_param)
        return service_messages().RepositoryModelUnloadResponse()

    return {b"RepositoryIndex": index, b"RepositoryModelLoad": load, b"RepositoryModelUnload": unload}


def _refuse_repository(name: str) -> None:
    if name:
        raise Unsupported("'repository_name' specification is not supported: name the model alone")


def _message(body: bytes | memoryview) -> dict[str, Any]:
    message = loads(body) if len(body) > _LONGEST_BLANK or bytes(body).strip() else {}
    if not isinstance(message, dict):
        raise InvalidInput("expected a JSON object as the body, with 'ready' or 'parameters', or no body")
    return message


def _flag(values: dict[str, Any], key: str) -> bool:
    value = values.get(key, False)
    if not isinstance(value, bool):
        raise InvalidInput(f"Invalid value for '{key}': expected a boolean")
    return value


def _decoded(key: str, value: object) -> str | bytes:
    """A load parameter in JSON: files are in base64."""
    if not isinstance(value, str):
        raise InvalidInput(f"attempt to access JSON non-string as string: the parameter {key[:200]!r}")
    if not key.startswith(_FILE):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"the parameter {key[:200]!r} must be a file's content in base64: {error}") from None


def _sent(key: str, value: Any) -> str | bytes:
    """The same in gRPC."""
    kind, expected = value.WhichOneof("parameter_choice"), "bytes_param" if key.startswith(_FILE) else "string_param"
    if kind != expected:
        raise InvalidInput(f"invalid value type for load parameter '{key[:200]}', expected {expected}.")
    sent: str | bytes = getattr(value, expected)
    return sent

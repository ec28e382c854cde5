"""Requests to a model of an Open Inference Protocol server, made from the model's own metadata: HTTP and gRPC."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.load.grpc_call import call
from trilith.measure.load.grpc_target import GrpcTarget
from trilith.measure.load.made_tensors import InputSpec, MadeTensor
from trilith.measure.load.probe import probe
from trilith.measure.load.target import Body, Target
from trilith.wire.oip_messages import service_messages

INFER_PATH: Final = "/inference.GRPCInferenceService/ModelInfer"
_METADATA_PATH: Final = "/inference.GRPCInferenceService/ModelMetadata"
_LENGTH_HEADER: Final = "inference-header-content-length"


def model_path(model: str, version: str) -> str:
    """The path of a model over HTTP."""
    return f"/v2/models/{quote(model, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")


def inputs_over_http(
    base: Target, model: str, version: str, headers: Sequence[tuple[str, str]], *, timeout_s: float
) -> list[InputSpec]:
    """What a model says of its inputs.

    Raises:
        SetupError: nobody answers, or there is no such model.
    """
    at = Target(host=base.host, port=base.port, tls=base.tls, path=model_path(model, version))
    answer = probe(at, "GET", None, headers, timeout_s=timeout_s)
    if answer.status != 200:
        raise SetupError(f"--model {model}: GET {at.url} is answered with status {answer.status}: {answer.excerpt}")
    try:
        return [_spec(each) for each in json.loads(answer.content)["inputs"]]
    except (ValueError, TypeError, KeyError) as error:
        raise SetupError(f"--model {model}: {at.url} does not describe a model's inputs: {error!r}") from None


async def inputs_over_grpc(
    target: GrpcTarget, model: str, version: str, headers: Sequence[tuple[str, str]], *, timeout_s: float
) -> list[InputSpec]:
    """What a model says of its inputs.

    Raises:
        SetupError: nobody answers, or there is no such model.
    """
    messages = service_messages()
    request = messages.ModelMetadataRequest(name=model, version=version).SerializeToString()
    answer = await call(target, [request], headers, path=_METADATA_PATH, timeout_s=timeout_s)
    if answer.error or not answer.messages:
        raise SetupError(f"--model {model}: {target.url} says {answer.error or 'nothing'}: {answer.message}")
    described = messages.ModelMetadataResponse.FromString(answer.messages[0])
    return [InputSpec(name=each.name, datatype=each.datatype, shape=tuple(each.shape)) for each in described.inputs]


def http_body(tensors: Sequence[MadeTensor]) -> tuple[Body, list[tuple[str, str]]]:
    """A request in the binary form of the protocol's tensor extension, and the header that goes with it."""
    described = [
        {
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": tensor.datatype,
            "parameters": {"binary_data_size": len(tensor.raw)},
        }
        for tensor in tensors
    ]
    head = json.dumps({"inputs": described, "parameters": {"binary_data_output": True}}).encode()
    content = head + b"".join(tensor.raw for tensor in tensors)
    return Body(content=content, content_type="application/octet-stream"), [(_LENGTH_HEADER, str(len(head)))]


def grpc_message(model: str, version: str, tensors: Sequence[MadeTensor]) -> bytes:
    """A `ModelInferRequest` with raw contents."""
    messages = service_messages()
    request = messages.ModelInferRequest(model_name=model, model_version=version)
    for tensor in tensors:
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        request.raw_input_contents.append(tensor.raw)
    octets: bytes = request.SerializeToString()
    return octets


def _spec(described: Mapping[str, Any]) -> InputSpec:
    shape = tuple(int(size) for size in described["shape"])
    return InputSpec(name=str(described["name"]), datatype=str(described["datatype"]), shape=shape)


def check_model_url(path: str, url: str) -> None:
    """With a model's name the URL is the server's.

    Raises:
        InvalidConfig: it has a path.
    """
    if path.strip("/"):
        raise InvalidConfig(
            f"URL {url!r}: with --model expected the server alone, as http://HOST:PORT or grpc://HOST:PORT"
        )

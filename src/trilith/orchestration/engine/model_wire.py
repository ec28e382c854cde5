"""The words and bytes of model calls between a worker and its gateway. Tensors themselves: `trilith.wire.tensors`."""

from __future__ import annotations

from typing import Final

import msgspec

from trilith.core.tensor import DataType, TensorSpec
from trilith.net.transport import Buffer
from trilith.service import ModelSignature

INFER: Final = "infer"
"""Method of a `CallMeta` without a service: run the model that the tensors' header names."""
SIGNATURE: Final = "signature"
"""Method of a `CallMeta` without a service: what the model named in `content_type` takes and gives, as msgpack."""


class _Tensor(msgspec.Struct, array_like=True, frozen=True):
    name: str
    datatype: str
    shape: tuple[int, ...]


class _Signature(msgspec.Struct, array_like=True, frozen=True):
    inputs: list[_Tensor]
    outputs: list[_Tensor]
    metadata: dict[str, str] = {}
    max_batch_size: int = 0


def pack_signature(signature: ModelSignature) -> bytes:
    """A model's signature as msgpack."""
    inputs, outputs = (
        [_Tensor(spec.name, str(spec.datatype), spec.shape) for spec in specs]
        for specs in (signature.inputs, signature.outputs)
    )
    return msgspec.msgpack.encode(_Signature(inputs, outputs, dict(signature.metadata), signature.max_batch_size))


def unpack_signature(raw: Buffer) -> ModelSignature:
    """The inverse of `pack_signature`."""
    found = msgspec.msgpack.decode(raw, type=_Signature)
    inputs, outputs = (
        tuple(TensorSpec(name=t.name, datatype=DataType(t.datatype), shape=t.shape) for t in tensors)
        for tensors in (found.inputs, found.outputs)
    )
    return ModelSignature(inputs=inputs, outputs=outputs, metadata=found.metadata, max_batch_size=found.max_batch_size)

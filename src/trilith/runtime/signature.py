"""What a model offers: its own signature and its configuration, made one.

Rule 1: what the configuration leaves open, the model's file fills in (Triton's auto-completion, always on).
Rule 2: what both say must agree; a disagreement is found when the model is loaded, not at its first request.
Rule 3: pure values in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from trilith.core.model import ModelSignature
from trilith.core.tensor import TensorSpec
from trilith.errors import InvalidConfig
from trilith.runtime.joining import Padding
from trilith.runtime.reshaping import Reshape
from trilith.runtime.spec import DeclaredTensor, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What clients may send and get.

    Attributes:
        inputs: with full shapes; the first dimension is -1 where the model batches.
        outputs: the same.
        max_batch_size: most rows of one request and of one batch; 0 when there is no batch dimension.
        generated: inputs of the model that the runtime makes, which clients do not send; as the model declares them.
        optional: inputs that clients may leave out.
        ragged: inputs whose shapes need not agree within a batch.
        padded: inputs that are filled up, so that shapes agree.
        reshapes: inputs and outputs whose model has them in another shape.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_batch_size: int
    generated: tuple[TensorSpec, ...] = ()
    optional: frozenset[str] = frozenset()
    ragged: frozenset[str] = frozenset()
    padded: Mapping[str, Padding] = field(default_factory=dict)
    reshapes: Mapping[str, Reshape] = field(default_factory=dict)

    @property
    def model_outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs in the shapes in which the model gives them."""
        head = (-1,) if self.max_batch_size else ()
        return tuple(
            replace(spec, shape=(*head, *self.reshapes[spec.name].inside)) if spec.name in self.reshapes else spec
            for spec in self.outputs
        )


def complete(spec: ModelSpec, signature: ModelSignature) -> Offer:
    """Joins what `spec` declares with what the model says.

    Raises:
        InvalidConfig: they disagree; the message names the tensor or the field.
    """
    made = {name for tensor in spec.inputs if tensor.pad is not None for name in tensor.pad.generated}
    made |= {name for batch_input in spec.batch_inputs for name in batch_input.targets}
    generated = tuple(tensor for tensor in signature.inputs if tensor.name in made)
    signature = replace(signature, inputs=tuple(tensor for tensor in signature.inputs if tensor.name not in made))
    fixed = _first_fixed(signature)
    max_batch_size = _max_batch_size(spec, signature, fixed)
    if max_batch_size and fixed is not None:
        raise InvalidConfig(
            f"model '{spec.name}': max_batch_size: must be 0, got {max_batch_size}: tensor '{fixed.name}' has shape "
            f"{list(fixed.shape)}, whose first dimension is not free; export the model with a dynamic batch dimension"
        )
    declared_inputs = _declared(spec, "input", spec.inputs, signature.inputs, max_batch_size > 0)
    declared_outputs = _declared(spec, "output", spec.outputs, signature.outputs, max_batch_size > 0)
    names = {tensor.name for tensor in declared_inputs}
    _check_joining(spec, {tensor.name: tensor for tensor in (*declared_inputs, *signature.inputs)}, max_batch_size)
    return Offer(
        inputs=(*declared_inputs, *(tensor for tensor in signature.inputs if tensor.name not in names)),
        outputs=declared_outputs or signature.outputs,
        max_batch_size=max_batch_size,
        generated=generated,
        optional=frozenset(tensor.name for tensor in spec.inputs if tensor.optional),
        ragged=frozenset(tensor.name for tensor in spec.inputs if tensor.ragged),
        padded={tensor.name: tensor.pad for tensor in spec.inputs if tensor.pad is not None},
        reshapes={
            tensor.name: Reshape(tensor.dims or (), tensor.reshape)
            for tensor in (*spec.inputs, *spec.outputs)
            if tensor.reshape is not None
        },
    )


def _check_joining(spec: ModelSpec, inputs: Mapping[str, TensorSpec], max_batch_size: int) -> None:
    """What joins requests of different shapes must speak of inputs that there are, and of dimensions that they have."""
    where = f"model '{spec.name}'"
    sources = [(f"batch_input {each.targets[0]}", each.source) for each in spec.batch_inputs]
    sources += [(f"batch_output {each.targets[0]}", each.source) for each in spec.batch_outputs]
    sources += [(f"output '{each.name}': unpad", each.unpad.input) for each in spec.outputs if each.unpad is not None]
    for what, source in sources:
        if source not in inputs:
            raise InvalidConfig(f"{where}: {what}: there is no input '{source}'; the inputs are {', '.join(inputs)}")
    for tensor in spec.inputs:
        if tensor.ragged and not max_batch_size:
            raise InvalidConfig(f"{where}: input '{tensor.name}': allow_ragged_batch needs a max_batch_size")
        if tensor.pad is not None:
            rank = len(inputs[tensor.name].shape) - (1 if max_batch_size else 0)
            if not -rank <= tensor.pad.axis < rank:
                raise InvalidConfig(
                    f"{where}: input '{tensor.name}': pad.axis: must be from {-rank} to {rank - 1}, as it counts the "
                    f"dimensions without that of the batch; got {tensor.pad.axis}"
                )
    if (spec.batch_inputs or spec.batch_outputs) and not max_batch_size:
        raise InvalidConfig(f"{where}: batch_input and batch_output need a max_batch_size")


def _first_fixed(signature: ModelSignature) -> TensorSpec | None:
    """A tensor that keeps the model from batching: its first dimension is absent or fixed."""
    for tensor in (*signature.inputs, *signature.outputs):
        if not tensor.shape or tensor.shape[0] != -1:
            return tensor
    return None


def _max_batch_size(spec: ModelSpec, signature: ModelSignature, fixed: TensorSpec | None) -> int:
    if spec.max_batch_size is not None:
        return spec.max_batch_size
    if fixed is not None or _declares_full_shapes(spec, signature):
        return 0
    return spec.default_rows


def _declares_full_shapes(spec: ModelSpec, signature: ModelSignature) -> bool:
    """Whether the configuration's dims include what would be the batch dimension, so that there is none."""
    ranks = {tensor.name: len(tensor.shape) for tensor in (*signature.inputs, *signature.outputs)}
    return any(
        declared.model_dims is not None and len(declared.model_dims) == ranks.get(declared.name)
        for declared in (*spec.inputs, *spec.outputs)
    )


def _declared(
    spec: ModelSpec, role: str, declared: Sequence[DeclaredTensor], own: Sequence[TensorSpec], batched: bool
) -> tuple[TensorSpec, ...]:
    known = {tensor.name: tensor for tensor in own}
    found: list[TensorSpec] = []
    for tensor in declared:
        model_tensor = known.get(tensor.name)
        if model_tensor is None:
            raise InvalidConfig(
                f"model '{spec.name}': unexpected {role} '{tensor.name}', the model's {role}s are: {', '.join(known)}"
            )
        if any(tensor.name == earlier.name for earlier in found):
            raise InvalidConfig(f"model '{spec.name}': {role} '{tensor.name}' is declared twice")
        scattered = any(tensor.name in output.targets for output in spec.batch_outputs)
        found.append(_agreed(spec, role, tensor, model_tensor, batched, flat=tensor.ragged or scattered))
    return tuple(found)


def _agreed(
    spec: ModelSpec, role: str, declared: DeclaredTensor, own: TensorSpec, batched: bool, *, flat: bool
) -> TensorSpec:
    """What clients are told of a tensor. `flat`: the model has it as one row of elements, whatever clients see."""
    where = f"model '{spec.name}': {role} '{declared.name}'"
    if declared.datatype not in (None, own.datatype):
        raise InvalidConfig(f"{where}: the configuration says {declared.datatype}, the model says {own.datatype}")
    if declared.dims is None or declared.model_dims is None:
        return _freed(declared, own, batched)
    shape = (-1, *declared.model_dims) if batched else declared.model_dims
    if flat:
        return replace(own, shape=shape)
    own = _freed(declared, own, batched)
    if own.shape and len(shape) != len(own.shape):
        hint = (
            "; max_batch_size is not 0, so dims must leave the batch dimension out"
            if batched
            else "; max_batch_size is 0, so dims must be the full shape"
        )
        raise InvalidConfig(
            f"{where}: the model expects {len(own.shape)} dimensions (shape {list(own.shape)}) but the configuration "
            f"specifies {len(shape)} dimensions (shape {list(shape)}){hint}"
        )
    if any(theirs not in (-1, ours) for ours, theirs in zip(shape, own.shape, strict=False)):
        raise InvalidConfig(f"{where}: the configuration says shape {list(shape)}, the model says {list(own.shape)}")
    return replace(own, shape=(-1, *declared.dims) if batched else declared.dims)


def _freed(declared: DeclaredTensor, own: TensorSpec, batched: bool) -> TensorSpec:
    """The tensor with the axis free that is padded, or cut back: clients may send and get any length."""
    length = declared.pad or declared.unpad
    if length is None or len(own.shape) < (2 if batched else 1):
        return own
    skip = 1 if batched else 0
    axis = skip + length.axis % (len(own.shape) - skip)
    return replace(own, shape=(*own.shape[:axis], -1, *own.shape[axis + 1 :]))

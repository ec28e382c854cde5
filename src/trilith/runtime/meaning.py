"""What a model's configuration means, in words."""

from __future__ import annotations

from collections.abc import Iterator

from trilith.runtime.joining import Padding
from trilith.runtime.repository import ModelPlan
from trilith.runtime.spec import DeclaredTensor, ModelSpec


def meaning(plan: ModelPlan) -> Iterator[str]:
    """One sentence for each thing that it says."""
    spec, queue = plan.spec, plan.spec.queue
    versions = ", ".join(str(file.version) for file in plan.files)
    script = f", which is {plan.kind.script}" if plan.kind.script is not None else ""
    yield f"Backend {spec.backend}{script}; version{'s' if len(plan.files) > 1 else ''} {versions} would be served."
    if spec.source is not None:
        yield f"The model file is fetched from {spec.source.reference}" + (
            " and its digest is checked." if spec.source.sha256 else "; say `sha256`, so that it is checked."
        )
    for agent in spec.agents:
        yield f"Before it is loaded, its files are shown to the repository agent {agent.name}, which may refuse."
    if spec.max_batch_size == 0:
        yield "Requests bring the full shape: there is no batch dimension, and requests are not joined."
    else:
        joined = "Requests are joined to batches" if queue.batching else "Each request runs alone"
        yield f"{joined}; a request may bring up to {_most_rows(plan)}."
    for kind, tensors in (("Input", spec.inputs), ("Output", spec.outputs)):
        for tensor in tensors:
            inside = "" if tensor.reshape is None else f"; the model has it as {_shape(tensor.reshape, spec)}"
            yield f"{kind} {tensor.name}: {_kind(tensor, spec)}{inside}."
            if tensor.pad is not None:
                yield from _padding(tensor.name, tensor.pad)
            if tensor.unpad is not None:
                part = "" if tensor.unpad.divide_by == 1 else f", divided by {tensor.unpad.divide_by}"
                yield (
                    f"Output {tensor.name} is cut back along axis {tensor.unpad.axis} to the request's own length of "
                    f"{tensor.unpad.input}{part}."
                )
    for output, how in spec.reductions.items():
        yield f"Of the output {output} of the model file only the {how} leaves: its index and its value."
    if queue.batching and queue.max_wait_s:
        yield f"A batch that is not full waits up to {queue.max_wait_s * 1e3:g} ms for company."
    if queue.max_queue_size:
        yield f"At most {queue.max_queue_size} requests wait; more are refused."
    count = spec.instances.count
    yield f"{count} batches run at the same time." if count > 1 else "One batch runs at a time."


def _most_rows(plan: ModelPlan) -> str:
    spec = plan.spec
    if spec.max_batch_size is not None:
        return f"{spec.max_batch_size} rows"
    if spec.backend == "python" or plan.kind.script is not None:
        return "as many rows as model.py says when it is loaded (auto_complete_config)"
    return f"{spec.default_rows} rows, if the model file has a batch dimension of any size"


def _kind(tensor: DeclaredTensor, spec: ModelSpec) -> str:
    if tensor.datatype is None and tensor.dims is None:
        return "type and shape are those in the model file"
    datatype = str(tensor.datatype or "the type in the model file")
    return (
        f"{datatype}, {'the shape in the model file' if tensor.dims is None else f'shape {_shape(tensor.dims, spec)}'}"
    )


def _padding(name: str, pad: Padding) -> Iterator[str]:
    to = "the longest in their batch"
    if pad.buckets:
        to = f"the next of {', '.join(map(str, pad.buckets))}"
    elif pad.multiple_of:
        to = f"the next multiple of {pad.multiple_of}"
    yield (
        f"Requests of different lengths share batches: {name} is filled along axis {pad.axis} with {pad.value:g} up to "
        f"{to}."
    )
    if pad.mask:
        yield f"Input {pad.mask} is made, and not sent: 1 where a request's own data is, 0 where it was filled."
    if pad.lengths:
        yield f"Input {pad.lengths} is made, and not sent: each row's own length."


def _shape(dims: tuple[int, ...], spec: ModelSpec) -> str:
    sizes = ["any" if size == -1 else str(size) for size in dims]
    return f"[{', '.join(sizes if spec.max_batch_size == 0 else ['rows', *sizes])}]"

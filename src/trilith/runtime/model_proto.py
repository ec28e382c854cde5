"""A model's configuration as Triton's `ModelConfig` message, the way Triton answers it: completed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilith.core.tensor import DataType, TensorSpec
from trilith.runtime.schedule import QueuePolicy
from trilith.runtime.spec import DeclaredTensor, InstanceGroup, QueueConfig
from trilith.runtime.warmup_sample import WarmupSample
from trilith.wire.oip_messages import model_config_messages

if TYPE_CHECKING:
    from trilith.runtime.handle import ModelHandle


def model_config(handle: ModelHandle) -> Any:
    """The message for one model version."""
    messages = model_config_messages()
    spec = handle.config
    config = messages.ModelConfig(
        name=spec.name,
        platform=handle.platform,
        backend=spec.backend,
        runtime=spec.runtime,
        max_batch_size=handle.max_batch_size,
        default_model_filename=handle.filename,
    )
    if spec.versions.specific:
        config.version_policy.specific.versions.extend(spec.versions.specific)
    elif spec.versions.latest:
        config.version_policy.latest.num_versions = spec.versions.latest
    else:
        config.version_policy.all.SetInParent()
    declared = {tensor.name: tensor for tensor in (*spec.inputs, *spec.outputs)}
    skip = 1 if handle.max_batch_size else 0
    for tensor in handle.inputs:
        entry = config.input.add()
        _fill(entry, tensor, skip)
        if tensor.name in declared:
            entry.format = messages.ModelInput.Format.Value(declared[tensor.name].format or "FORMAT_NONE")
            entry.optional = declared[tensor.name].optional
            entry.allow_ragged_batch = declared[tensor.name].ragged
            fill_reshape(entry, declared[tensor.name])
    for tensor in handle.outputs:
        entry = config.output.add()
        _fill(entry, tensor, skip)
        said = declared.get(tensor.name, DeclaredTensor(name=tensor.name))
        entry.label_filename = said.label_filename
        fill_reshape(entry, said)
    for made in spec.batch_inputs:
        config.batch_input.add(
            kind=messages.BatchInput.Kind.Value(made.kind.value),
            target_name=made.targets,
            data_type=messages.DataType.Value(f"TYPE_{made.datatype}"),
            source_input=[made.source],
        )
    for told_apart in spec.batch_outputs:
        config.batch_output.add(target_name=told_apart.targets, source_input=[told_apart.source])
    config.MergeFromString(spec.kept)
    for at, group in enumerate(spec.instances.groups or (InstanceGroup(count=spec.instances.count),)):
        entry = config.instance_group.add(
            name=group.name or f"{spec.name}_{at}",
            kind=messages.ModelInstanceGroup.Kind.Value(group.kind),
            count=group.count,
            gpus=group.gpus,
        )
        entry.MergeFromString(group.kept)
    # Without a batch dimension nothing is joined; what else is said of the queue holds all the same.
    if spec.queue.batching and (handle.max_batch_size or spec.queue != QueueConfig()):
        _fill_batching(config.dynamic_batching, spec.queue, handle.max_batch_size)
    if spec.graph_level:
        config.optimization.graph.level = spec.graph_level
    for sample in spec.warmup:
        _fill_warmup(config.model_warmup.add(name=sample.name, batch_size=sample.rows, count=sample.count), sample)
    for key, value in spec.parameters.items():
        config.parameters[key].string_value = value
    config.metric_tags.update(spec.metric_tags)
    for agent in spec.agents:
        config.model_repository_agents.agents.add(name=agent.name, parameters=agent.parameters)
    return config


def _fill(entry: Any, tensor: TensorSpec, skip: int) -> None:
    word = "STRING" if tensor.datatype is DataType.BYTES else str(tensor.datatype)
    entry.name = tensor.name
    entry.data_type = model_config_messages().DataType.Value(f"TYPE_{word}")
    entry.dims.extend(tensor.shape[skip:])


def fill_reshape(entry: Any, declared: DeclaredTensor) -> None:
    """Notes in an input or output of the message in which shape its model has it."""
    if declared.reshape is not None:
        entry.reshape.SetInParent()
        entry.reshape.shape.extend(declared.reshape)


def _fill_batching(batching: Any, queue: QueueConfig, max_batch_size: int) -> None:
    batching.preferred_batch_size.extend(queue.preferred_rows or ((max_batch_size,) if max_batch_size else ()))
    batching.max_queue_delay_microseconds = round(queue.max_wait_s * 1e6)
    if queue.says_levels:
        batching.priority_levels = queue.priority_levels
        batching.default_priority_level = queue.default_priority
    batching.preserve_ordering = queue.preserve_ordering
    if queue.says_policy:
        _fill_policy(batching.default_queue_policy, queue.policy)
        batching.default_queue_policy.max_queue_size = queue.max_queue_size or queue.policy.max_queue_size
    for level, policy in queue.level_policies.items():
        _fill_policy(batching.priority_queue_policy[level], policy)


def _fill_policy(entry: Any, policy: QueuePolicy) -> None:
    actions = model_config_messages().ModelQueuePolicy.TimeoutAction
    entry.timeout_action = actions.Value(policy.timeout_action.value)
    entry.default_timeout_microseconds = round((policy.timeout_s or 0.0) * 1e6)
    entry.allow_timeout_override = policy.allow_timeout_override
    entry.max_queue_size = policy.max_queue_size


def _fill_warmup(entry: Any, sample: WarmupSample) -> None:
    for tensor in sample.inputs:
        word = "STRING" if tensor.datatype is DataType.BYTES else str(tensor.datatype)
        made = entry.inputs[tensor.name]
        made.data_type = model_config_messages().DataType.Value(f"TYPE_{word}")
        made.dims.extend(tensor.dims)
        if tensor.filename:
            made.input_data_file = tensor.filename
        elif tensor.random:
            made.random_data = True
        else:
            made.zero_data = True

"""`config.pbtxt` becomes `model.yaml` and back, and nothing is lost.

What has a pleasant form in `model.yaml` gets it. The rest of a `config.pbtxt` stands below `triton`, as the JSON of its
message. A `model.yaml` with that key is read as the `config.pbtxt` that it becomes, so that both mean the same.

Rule 1: what `model.yaml` says and `config.pbtxt` cannot say is refused by name, never left out.
Rule 2: instances are on CPUs, so a group that leaves its kind out is written as one of KIND_CPU.
Rule 3: a `max_batch_size` of 0 that is written says something, and is written again; protobuf would leave it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from google.protobuf import json_format, text_format

from trilith.config import dump_yaml, load_yaml
from trilith.errors import InvalidConfig, UnknownReference
from trilith.runtime.model_pbtxt import load_model_pbtxt, parse_model_pbtxt, says_max_batch_size
from trilith.runtime.model_yaml import load_model_yaml
from trilith.runtime.ranges import INT32
from trilith.runtime.repository import PBTXT, YAML, is_version
from trilith.runtime.spec import ModelSpec
from trilith.wire.oip_messages import model_config_messages

_CPU_KINDS: Final = (0, 2)  # KIND_AUTO, KIND_CPU
_PLAIN: Final = frozenset(("name", "datatype", "dims", "labels", "optional", "ragged"))
_SAID: Final = frozenset(
    (
        *("name", "backend", "runtime", "max_batch_size", "inputs", "outputs", "instances", "batching", "versions"),
        *("filename", "agents", "parameters", "triton"),
    )
)
_FIELDS: Final = (("labels", "label_filename"), ("optional", "optional"), ("ragged", "allow_ragged_batch"))
_BATCHING: Final = frozenset(("preferred", "max_wait_ms", "preserve_ordering"))


def convert_config(path: Path) -> str:
    """The other form of a configuration: of a `config.pbtxt` the `model.yaml`, of a `model.yaml` the `config.pbtxt`.

    Args:
        path: the file, or the folder of the model that has one of them.

    Raises:
        UnknownReference: there is no such file.
        InvalidConfig: it is wrong, or cannot be said in the other form.
    """
    if path.is_dir():
        path = _config_in(path)
    name = said_name(path) or path.resolve().parent.name
    if path.suffix in (".yaml", ".yml"):
        load_model_yaml(path, name)
        return yaml_to_pbtxt(load_yaml(path, dict[str, Any]), source=str(path))
    load_model_pbtxt(path, name)
    return pbtxt_to_yaml(path.read_text(encoding="utf-8"), name, source=str(path))


def _config_in(folder: Path) -> Path:
    found = next((folder / name for name in (YAML, PBTXT) if (folder / name).is_file()), None)
    if found is not None:
        return found
    models = sorted(child.name for child in folder.iterdir() if any((child / name).is_file() for name in (YAML, PBTXT)))
    if models:
        raise UnknownReference(
            f"{folder} is a repository: one configuration is converted at a time, for example {folder / models[0]}"
        )
    raise UnknownReference(f"{folder} has neither a {YAML} nor a {PBTXT}")


def said_name(path: Path) -> str:
    """The name that a configuration gives its model, where it lies in no model's folder; "" when there is none.

    A file by itself is what it says; within a model's folder, whose name is the model's, it must agree.
    """
    folder = path.resolve().parent
    if not path.is_file() or any(child.is_dir() and is_version(child.name) for child in folder.iterdir()):
        return ""
    try:
        if path.suffix in (".yaml", ".yml"):
            return str(load_yaml(path, dict[str, Any]).get("name") or "")
        text = path.read_text(encoding="utf-8")
        return str(text_format.Parse(text, model_config_messages().ModelConfig()).name)
    except (InvalidConfig, OSError, UnicodeDecodeError, text_format.ParseError):
        return ""  # what is wrong with it is told where it is read


def pbtxt_to_yaml(text: str, name: str, *, source: str) -> str:
    """The `model.yaml` that says what the `config.pbtxt` of model `name` says.

    Raises:
        InvalidConfig: it is wrong; `source` is its name in messages.
    """
    parse_model_pbtxt(text, name, source=source)
    config: Any = text_format.Parse(text, model_config_messages().ModelConfig())
    said = says_max_batch_size(text)
    values: dict[str, Any] = {}
    if config.name:
        values["name"] = config.name
    for field in ("backend", "runtime"):
        if getattr(config, field):
            values[field] = getattr(config, field)
    if said:
        values["max_batch_size"] = config.max_batch_size
    done = {"name", "backend", "runtime", "max_batch_size"}
    for field, key in (("input", "inputs"), ("output", "outputs")):
        tensors = [_tensor_values(tensor) for tensor in getattr(config, field)]
        if tensors and None not in tensors:
            values[key] = tensors
            done.add(field)
    groups = config.instance_group
    plain = [type(group)(count=group.count, kind=group.kind) == group and group.kind in _CPU_KINDS for group in groups]
    if plain == [True] and groups[0].count > 0:
        values["instances"] = groups[0].count
        done.add("instance_group")
    if config.HasField("dynamic_batching"):
        batching = _batching_values(config.dynamic_batching)
        if batching is not None:
            values["batching"] = batching or True
            done.add("dynamic_batching")
    elif said:
        values["batching"] = False
    versions = _version_values(config.version_policy) if config.HasField("version_policy") else None
    if versions is not None:
        values["versions"] = versions
        done.add("version_policy")
    if config.default_model_filename:
        values["filename"] = config.default_model_filename
        done.add("default_model_filename")
    if config.model_repository_agents.agents:
        values["agents"] = [_agent_values(agent) for agent in config.model_repository_agents.agents]
        done.add("model_repository_agents")
    rest = type(config)()
    rest.CopyFrom(config)
    for field in done:
        rest.ClearField(field)
    if rest.ListFields():
        values["triton"] = json_format.MessageToDict(rest, preserving_proto_field_name=True)
    return dump_yaml(values)


def yaml_to_pbtxt(values: Mapping[str, Any], *, source: str) -> str:
    """The `config.pbtxt` that says what the content of a `model.yaml` says.

    Raises:
        InvalidConfig: it says what `config.pbtxt` cannot say, or says something twice.
    """
    lost = [key for key in values if key not in _SAID]
    lost += [
        f"{side}.{tensor.get('name')}.{key}"
        for side in ("inputs", "outputs")
        for tensor in values.get(side, ())
        for key in tensor
        if key not in _PLAIN or (key == "labels" and side == "inputs")
    ]
    instances, batching = values.get("instances"), values.get("batching", True)
    lost += [
        f"{side}.{tensor.get('name')}.dims: []"
        for side in ("inputs", "outputs")
        for tensor in values.get(side, ())
        if tensor.get("dims") == []
    ]
    if values.get("batching") is False and values.get("max_batch_size") is None:
        lost.append("batching: false (as long as max_batch_size is left to the model)")
    lost += [f"instances.{key}" for key in instances if key != "count"] if isinstance(instances, Mapping) else []
    lost += [f"batching.{key}" for key in batching if key not in _BATCHING] if isinstance(batching, Mapping) else []
    if lost:
        raise InvalidConfig(f"{source}: {', '.join(lost)}: cannot be said in config.pbtxt; keep model.yaml")
    config: Any = model_config_messages().ModelConfig()
    try:
        _fill(config, values)
        rest: Any = json_format.ParseDict(dict(values.get("triton") or {}), type(config)())
    except (json_format.ParseError, TypeError, ValueError) as error:
        raise InvalidConfig(f"{source}: triton: {error}") from error
    twice = [
        field.name for field, _ in rest.ListFields() if field.name in {each.name for each, _ in config.ListFields()}
    ]
    if twice and twice != ["dynamic_batching"]:
        raise InvalidConfig(f"{source}: triton.{twice[0]}: is said outside of `triton` too; keep one of them")
    if rest.HasField("dynamic_batching"):
        config.ClearField("dynamic_batching")
    config.MergeFrom(rest)
    written: str = text_format.MessageToString(config)
    return f"max_batch_size: 0\n{written}" if values.get("max_batch_size") == 0 else written


def read_through_pbtxt(values: Mapping[str, Any], name: str, *, source: str) -> ModelSpec:
    """The specification of a `model.yaml` with the key `triton`.

    Raises:
        InvalidConfig: as above, or a field is wrong.
    """
    return parse_model_pbtxt(yaml_to_pbtxt(values, source=source), name, source=source)


def _agent_values(agent: Any) -> dict[str, Any]:
    parameters = dict(sorted(agent.parameters.items()))
    return {"name": agent.name, **({"parameters": parameters} if parameters else {})}


def _tensor_values(tensor: Any) -> dict[str, Any] | None:
    """The pleasant form of one input or output; None when it has none."""
    plain = {"name", "data_type", "dims", "label_filename", "optional", "allow_ragged_batch"}
    if any(field.name not in plain for field, _ in tensor.ListFields()):
        return None
    values: dict[str, Any] = {"name": tensor.name}
    word = model_config_messages().DataType.Name(tensor.data_type).removeprefix("TYPE_")
    if word != "INVALID":
        values["datatype"] = "BYTES" if word == "STRING" else word
    if tensor.dims:
        values["dims"] = list(tensor.dims)
    for key, field in _FIELDS:
        if getattr(tensor, field, None):
            values[key] = getattr(tensor, field)
    return values


def _batching_values(batching: Any) -> dict[str, Any] | None:
    plain = {"preferred_batch_size", "max_queue_delay_microseconds", "preserve_ordering"}
    if any(field.name not in plain for field, _ in batching.ListFields()):
        return None
    values: dict[str, Any] = {}
    if batching.preferred_batch_size:
        if min(batching.preferred_batch_size) < 1:
            return None
        values["preferred"] = list(batching.preferred_batch_size)
    if (wait_us := batching.max_queue_delay_microseconds) != 0:
        if round(wait_us / 1e3 * 1e3) != wait_us or round(wait_us / 1e3 * 1e6) / 1e9 != wait_us / 1e6:
            return None
        values["max_wait_ms"] = wait_us / 1e3
    if batching.preserve_ordering:
        values["preserve_ordering"] = True
    return values


def _version_values(policy: Any) -> Any:
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return "all"
    if choice == "specific" and policy.specific.versions and min(policy.specific.versions) >= 1:
        return list(policy.specific.versions)
    latest = policy.latest.num_versions  # as a uint32, more than `model.yaml` takes
    return {"latest": latest} if choice == "latest" and 1 <= latest <= INT32.most else None


def _fill(config: Any, values: Mapping[str, Any]) -> None:
    messages = model_config_messages()
    config.name = values.get("name") or ""
    config.backend = values.get("backend", "")
    config.runtime = values.get("runtime", "")
    config.max_batch_size = values.get("max_batch_size") or 0
    for key, field in (("inputs", config.input), ("outputs", config.output)):
        for tensor in values.get(key, ()):
            entry = field.add(name=tensor["name"], dims=tensor.get("dims") or ())
            if word := tensor.get("datatype"):
                entry.data_type = messages.DataType.Value(f"TYPE_{'STRING' if word == 'BYTES' else word}")
            for ours, theirs in (
                ("labels", "label_filename"),
                ("optional", "optional"),
                ("ragged", "allow_ragged_batch"),
            ):
                if tensor.get(ours):
                    setattr(entry, theirs, tensor[ours])
    instances = values.get("instances")
    if instances is not None:
        config.instance_group.add(
            count=instances.get("count", 1) if isinstance(instances, Mapping) else instances,
            kind=messages.ModelInstanceGroup.KIND_CPU,
        )
    batching = values.get("batching", True if values.get("max_batch_size") else None)
    if batching is not None and batching is not False:
        said = batching if isinstance(batching, Mapping) else {}
        config.dynamic_batching.SetInParent()
        config.dynamic_batching.preferred_batch_size.extend(said.get("preferred", ()))
        config.dynamic_batching.max_queue_delay_microseconds = round(said.get("max_wait_ms", 0) * 1e3)
        config.dynamic_batching.preserve_ordering = said.get("preserve_ordering", False)
    versions = values.get("versions")
    if versions == "all":
        config.version_policy.all.SetInParent()
    elif isinstance(versions, Mapping):
        config.version_policy.latest.num_versions = versions["latest"]
    elif isinstance(versions, list):
        config.version_policy.specific.versions.extend(versions)
    config.default_model_filename = values.get("filename", "")
    for agent in values.get("agents", ()):
        config.model_repository_agents.agents.add(name=agent["name"], parameters=agent.get("parameters") or {})
    for key, value in values.get("parameters", {}).items():
        config.parameters[key].string_value = str(value).lower() if isinstance(value, bool) else str(value)

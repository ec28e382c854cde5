"""A PyTorch model as a function of named tensors, and what it takes and gives. Imports nothing of PyTorch.

Rule: an exported program says its tensors itself. TorchScript says names only, so the configuration must say the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trilith.core.model import ModelSignature
from trilith.core.tensor import DataType, TensorSpec
from trilith.errors import SetupError
from trilith.runtime.backends.files import declared_signature, must_declare
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.tensor_order import positions
from trilith.runtime.spec import DeclaredTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A model.

    Attributes:
        signature: what it takes and gives.
        run: outputs by name, from inputs by name, both as PyTorch has them.
    """

    signature: ModelSignature
    run: Callable[[Mapping[str, Any]], Mapping[str, Any]]


def script_program(file: ModelFile, module: Any) -> Program:
    """A TorchScript module.

    Raises:
        SetupError: the configuration does not say the datatypes and dims of its tensors.
        InvalidConfig: it says names that mean none of them.
    """
    module.eval()
    schema = module.forward.schema
    arguments = schema.arguments[1:]
    names = [argument.name for argument in arguments]
    result = str(schema.returns[0].type)
    inputs = declared_signature(file, file.spec.inputs)
    outputs = declared_signature(file, file.spec.outputs)
    count = result.count("Tensor") if result.startswith("Tuple") else 1
    if inputs is None or outputs is None:
        raise must_declare(
            file,
            "TorchScript does not say the datatypes and shapes of a model's inputs and outputs",
            [argument.name for argument in arguments if not argument.has_default_value()],
            [f"OUTPUT__{at}" for at in range(count)],
        )
    given = [tensor.name for tensor in inputs]
    takes_mapping = len(arguments) == 1 and str(arguments[0].type).startswith("Dict")
    order = range(len(given)) if takes_mapping else positions(file.model, "input", given, names)
    missing = [
        argument.name
        for at, argument in enumerate(arguments)
        if at not in order and not argument.has_default_value() and not takes_mapping
    ]
    if missing:
        raise SetupError(f"{file.path}: inputs: the model needs '{missing[0]}' too, got {', '.join(given)}")
    wanted = [tensor.name for tensor in outputs]

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        if takes_mapping:
            return _by_name(file, module(dict(values)), wanted)
        found = module(**{names[at]: values[name] for at, name in zip(order, given, strict=True)})
        return _by_name(file, found, wanted)

    return Program(signature=ModelSignature(inputs=inputs, outputs=outputs), run=run)


def exported_program(file: ModelFile, exported: Any, datatypes: Mapping[str, DataType]) -> Program:
    """What `torch.export` made. `datatypes` are ours by PyTorch's names.

    Raises:
        SetupError: an input or output is no tensor.
        InvalidConfig: the configuration has names that mean none of its tensors.
    """
    nodes = {node.name: node for node in exported.graph.nodes}
    names = list(exported.graph_signature.user_inputs)
    results = list(exported.graph_signature.user_outputs)
    own_inputs = [_spec(file, "input", str(name), nodes.get(name), datatypes) for name in names]
    keys = _output_names(exported.call_spec.out_spec, len(results))
    own_outputs = [
        _spec(file, "output", key, nodes.get(name), datatypes) for key, name in zip(keys, results, strict=True)
    ]
    inputs = _renamed(file, "input", file.spec.inputs, own_inputs)
    outputs = _renamed(file, "output", file.spec.outputs, own_outputs)
    module = exported.module()
    in_spec = exported.call_spec.in_spec

    def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
        arguments, keywords = in_spec.unflatten([values[spec.name] for spec in inputs])
        flat = _flat(module(*arguments, **keywords))
        return dict(zip((spec.name for spec in outputs), flat, strict=True))

    return Program(signature=ModelSignature(inputs=tuple(inputs), outputs=tuple(outputs)), run=run)


def _spec(file: ModelFile, role: str, name: str, node: Any, datatypes: Mapping[str, DataType]) -> TensorSpec:
    value = node.meta.get("val") if node is not None else None
    datatype = datatypes.get(str(getattr(value, "dtype", "")))
    if value is None or datatype is None:
        kind = getattr(value, "dtype", type(value).__name__)
        raise SetupError(
            f"{file.path}: {role} '{name}' is {kind}; Trilith runs exported programs whose {role}s are tensors of "
            f"{', '.join(kind.removeprefix('torch.') for kind in datatypes)}"
        )
    shape = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def _renamed(
    file: ModelFile, role: str, declared: Sequence[DeclaredTensor], own: Sequence[TensorSpec]
) -> list[TensorSpec]:
    """The model's own tensors, in its order, under the names of the configuration."""
    configured = [tensor.name for tensor in declared]
    order = positions(file.model, role, configured, [spec.name for spec in own])
    names = dict(zip(order, configured, strict=True))
    return [
        TensorSpec(name=names.get(at, spec.name), datatype=spec.datatype, shape=spec.shape)
        for at, spec in enumerate(own)
    ]


def _output_names(spec: Any, count: int) -> list[str]:
    """The keys of a model that gives a mapping of tensors; else numbers."""
    structure = spec.unflatten(list(range(count)))
    if isinstance(structure, dict) and all(isinstance(at, int) for at in structure.values()):
        return [str(key) for key, _ in sorted(structure.items(), key=lambda item: item[1])]
    return [f"OUTPUT__{at}" for at in range(count)]


def _by_name(file: ModelFile, found: Any, wanted: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(found, dict):
        keys = [str(key) for key in found]
        order = positions(file.model, "output", wanted, keys)
        values = list(found.values())
    else:
        values = list(found) if isinstance(found, tuple) or _is_tensor_list(found) else [found]
        order = positions(file.model, "output", wanted, [f"OUTPUT__{at}" for at in range(len(values))])
    return {name: values[at] for at, name in zip(order, wanted, strict=True)}


def _is_tensor_list(found: Any) -> bool:
    """A list of texts is one output; a list of tensors is as many."""
    return isinstance(found, list) and not (found and isinstance(found[0], str))


def _flat(found: Any) -> list[Any]:
    if isinstance(found, Mapping):
        return [leaf for value in found.values() for leaf in _flat(value)]
    if isinstance(found, (list, tuple)):
        return [leaf for value in found for leaf in _flat(value)]
    return [found]

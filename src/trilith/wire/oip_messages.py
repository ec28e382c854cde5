"""The compiled protobuf messages of the Open Inference Protocol and of Triton's model configuration.

They are those that `tritonclient` ships: the exact wire types, nothing copied.

Rule 1: this is the only file that knows where they come from; loading is lazy.
Rule 2: `tritonclient.grpc` is never imported, because its package front imports grpcio, which Trilith does not need.
    Its two generated files are executed on their own, with an `import` of their own that hands the second the first;
    so nothing is registered anywhere, and a later `import tritonclient.grpc` works as ever. protobuf keeps one
    descriptor pool a process, so both ways give the very same message classes.
"""

from __future__ import annotations

import builtins
import functools
import importlib.machinery
import importlib.util
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

from trilith.errors import UnknownReference

_PACKAGE = "tritonclient.grpc"


@functools.cache
def model_config_messages() -> types.ModuleType:
    """Triton's `model_config.proto` as a module: `ModelConfig`, `DataType`, `ModelInput` and the rest.

    Raises:
        UnknownReference: the package `tritonclient` is not installed.
    """
    return _execute("model_config_pb2", {})


@functools.cache
def service_messages() -> types.ModuleType:
    """Triton's `grpc_service.proto` as a module: `ModelInferRequest`, `ServerReadyResponse` and the rest.

    Raises:
        UnknownReference: the package `tritonclient` is not installed.
    """
    return _execute("service_pb2", {"model_config_pb2": model_config_messages()})


def _execute(name: str, siblings: Mapping[str, types.ModuleType]) -> types.ModuleType:
    """Runs one generated file as a module that no one else sees."""
    folder = _folder()
    spec = importlib.machinery.PathFinder.find_spec(name, [folder])
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        raise UnknownReference(f"expected the file {name}.py of the package tritonclient in {folder}, found none")
    code = spec.loader.get_code(name)
    if code is None:
        raise UnknownReference(f"{spec.origin} holds no code; install tritonclient again")
    module = types.ModuleType(f"{__name__}.{name}")
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import_with(siblings)}
    exec(code, vars(module))
    return module


def _folder() -> str:
    spec = importlib.util.find_spec("tritonclient")
    if spec is None or not spec.submodule_search_locations:
        raise UnknownReference(
            "the Open Inference Protocol needs the package tritonclient: pip install 'tritonclient>=2.60'"
        )
    return str(Path(spec.submodule_search_locations[0]) / "grpc")


def _import_with(siblings: Mapping[str, types.ModuleType]) -> object:
    package = types.SimpleNamespace(**siblings)

    def import_(
        name: str,
        globals_: Mapping[str, object] | None = None,
        locals_: Mapping[str, object] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> object:
        if name == _PACKAGE:
            return package
        return builtins.__import__(name, globals_, locals_, names or (), level)

    return import_

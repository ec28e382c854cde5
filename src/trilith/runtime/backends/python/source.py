"""What can be known of a `model.py` without running it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig

_CLASS: Final = "TritonPythonModel"
_SCRIPTING: Final = ("exec", "async_exec")


def check_source(path: Path) -> None:
    """Sees that the file is Python, has the class, and does what is served here.

    Raises:
        InvalidConfig: it is not, or it asks other models by `InferenceRequest(...).exec()`.
    """
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        raise InvalidConfig(f"{path}: is no Python that can be read: {error}") from error
    if not any(_names(statement) for statement in ast.walk(tree)):
        raise InvalidConfig(f"{path}: has no class {_CLASS}")
    nodes = list(ast.walk(tree))
    if any(_ends_with(node, "InferenceRequest") for node in nodes if isinstance(node, ast.Call)):
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SCRIPTING:
                raise InvalidConfig(
                    f"{path}:{node.lineno}: {node.func.attr}: asking another model from model.py (business logic "
                    "scripting) is not served yet; let a client or a service (docs/service.md) call one after the other"
                )


def _names(node: ast.AST) -> bool:
    """Whether something in the file may give it a name `TritonPythonModel`."""
    if isinstance(node, ast.ClassDef):
        return node.name == _CLASS
    if isinstance(node, ast.ImportFrom):
        return any((alias.asname or alias.name) in (_CLASS, "*") for alias in node.names)
    if isinstance(node, ast.Name):
        return node.id == _CLASS and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Constant) and node.value == _CLASS  # `globals()[...]`, `setattr(...)`


def _ends_with(call: ast.Call, name: str) -> bool:
    return getattr(call.func, "id", getattr(call.func, "attr", "")) == name

"""Other models, seen from a model: not offered yet, and said so in a form that models may catch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from trilith.runtime.backends.python.pb_utils.errors import TritonModelException


def load_model(model_name: str, files: Mapping[str, bytes] | None = None, config: str = "") -> NoReturn:
    """Raises: not supported."""
    raise TritonModelException(f"load_model('{model_name}'): model control from a model is not supported")


def unload_model(model_name: str, unload_dependents: bool = False) -> NoReturn:
    """Raises: not supported."""
    raise TritonModelException(f"unload_model('{model_name}'): model control from a model is not supported")


def is_model_ready(model_name: str, model_version: str = "") -> NoReturn:
    """Raises: not supported."""
    raise TritonModelException(f"is_model_ready('{model_name}'): asking for other models is not supported")

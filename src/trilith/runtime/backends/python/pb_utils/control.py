"""Other models, seen from a model: loaded, unloaded, asked for. The server's model control mode must be `explicit`.

Rule: each call blocks until the runtime has answered, from whatever thread of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from trilith.core.foreign import foreign_text, named_error
from trilith.errors import ModelError
from trilith.runtime.backends.python.messages import IsModelReady, LoadModel, Question, Told, UnloadModel
from trilith.runtime.backends.python.pb_utils.errors import TritonModelException

_FILE: Final = "file:"
_LONGEST: Final = 1 << 29


class Desk:
    """The way to the runtime, which the worker sets; in a program of its own (a unit test) there is none."""

    ask: Callable[[Question], Told] | None = None


def load_model(model_name: str, config: str = "", files: Mapping[str, bytes] | None = None) -> None:
    """Loads or reloads a model, and returns when it is ready.

    Args:
        model_name: of the model.
        config: JSON of its configuration; what it says stands before what the folder's file says.
        files: content by `file:VERSION/NAME`, instead of the model's folder; then `config` is needed too.

    Raises:
        TritonModelException: it cannot be loaded; the message says why.
    """
    named = {
        key if key.startswith(_FILE) else _FILE + key: bytes(content) for key, content in dict(files or {}).items()
    }
    size = sum(map(len, named.values())) + len(config)
    if size > _LONGEST:
        raise TritonModelException(
            f"load_model('{model_name}'): expected at most {_LONGEST} bytes of files, got {size}"
        )
    _asked(LoadModel(name=foreign_text(model_name), files=named, config=foreign_text(config)))


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Unloads a model, after what it runs has ended.

    Raises:
        TritonModelException: it cannot be unloaded; the message says why.
    """
    _asked(UnloadModel(name=foreign_text(model_name), dependents=bool(unload_dependents)))


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a version of a model may be called, or any of its versions.

    Raises:
        TritonModelException: the runtime cannot be asked.
    """
    return _asked(IsModelReady(name=foreign_text(model_name), version=foreign_text(model_version)))


def _asked(question: Question) -> bool:
    if Desk.ask is None:
        raise TritonModelException("there is no runtime here: this process was not started by one")
    try:
        answer = Desk.ask(question)
    except (OSError, EOFError, ModelError) as error:
        raise TritonModelException(f"the runtime cannot be asked: {named_error(error)}") from error
    if answer.error:
        raise TritonModelException(answer.error)
    return answer.yes

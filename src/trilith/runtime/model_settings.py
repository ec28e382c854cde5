"""Keys of a `model.yaml` that a server sets: they stand before what a model's own configuration says.

Rule 1: what is not set stays, in whichever form the configuration is written.
Rule 2: what a model is and where it comes from is no setting: only how it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trilith.config import convert, load_yaml, merged, parse_yaml
from trilith.errors import InvalidConfig, UnknownReference
from trilith.runtime.model_convert import pbtxt_to_yaml
from trilith.runtime.model_yaml import Model, spec_of_values
from trilith.runtime.spec import ModelSpec

MODEL_SETTINGS: Final = (
    "backend",
    "max_batch_size",
    "instances",
    "batching",
    "queue",
    "session",
    "parameters",
    "timeout_ms",
    "load_timeout_ms",
)
"""Keys of a `model.yaml` that can be set."""


def check_model_settings(settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Looks at settings by themselves, before any model is.

    Args:
        settings: keys of its `model.yaml`, by model.

    Raises:
        InvalidConfig: a key is none, or cannot be set, or its value is of the wrong type or out of its range.
    """
    for name, values in settings.items():
        convert(dict(values), Model, source=_source(name))
        for key in values:
            if key not in MODEL_SETTINGS:
                raise InvalidConfig(
                    f"{_source(name)}: {key}: says what the model is, and stands in its configuration alone; "
                    f"can be set: {', '.join(MODEL_SETTINGS)}"
                )


def check_models_known(settings: Mapping[str, Any], names: Mapping[str, Any]) -> None:
    """Looks whether there are the models that are set.

    Raises:
        UnknownReference: one is not among `names`.
    """
    for name in settings:
        if name not in names:
            raise UnknownReference(
                f"{_source(name)}: there is no such model in the repositories; they hold "
                f"{', '.join(sorted(names)) or 'none'}"
            )


def spec_with(settings: Mapping[str, Any], name: str, file: Path | None) -> ModelSpec:
    """The specification of a model's configuration with what is set put over it.

    Args:
        settings: keys of a `model.yaml`.
        name: the model's name.
        file: its `config.pbtxt` or `model.yaml`; None when it has none.

    Raises:
        InvalidConfig: the configuration is wrong, alone or with the settings; or a key has no place in a
            `config.pbtxt` whose fields have no other form.
    """
    source = f"{file} with {_source(name)}" if file is not None else _source(name)
    return spec_of_values(merged(_values(name, file), settings), name, source=source)


def _values(name: str, file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    if file.suffix != ".pbtxt":
        return load_yaml(file, dict[str, Any])
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UnknownReference(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{file}: must be UTF-8 text: {error}") from error
    written: dict[str, Any] = parse_yaml(pbtxt_to_yaml(text, name, source=str(file)), source=str(file))
    return written


def _source(name: str) -> str:
    return f"models.{name} as set"

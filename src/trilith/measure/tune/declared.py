"""What a target declares: its services, methods and models, with the values that could be set. Doer.

A service is imported to know that, in a process of its own: what the user's code loads is not in the one that measures.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from trilith.config import Settings, setting_path
from trilith.errors import InvalidConfig, SetupError
from trilith.measure.tune.declaration import Declared, DeclaredModel
from trilith.measure.tune.space import Value
from trilith.runtime import ModelSpec, read_spec

_MODULE: Final = "trilith.measure.tune.declared_process"
_WITHIN_S: Final = 120.0
_THREADED: Final = ("onnxruntime", "openvino")


class DeclaredArguments(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be looked at; as of `read_declared`."""

    target: str
    folder: str
    model_roots: list[str]
    settings: Settings


def read_declared(target: str, *, folder: Path, settings: Settings, model_roots: Iterable[Path] = ()) -> Declared:
    """What a target declares, with `settings` put over it.

    Args:
        target: as `trilith serve` takes it.
        folder: where it is looked for.
        settings: those that stay as they are.
        model_roots: folders in which model names are looked up first.

    Raises:
        SetupError: it cannot be loaded; the message is for a person.
        InvalidConfig: it is a repository behind a URL, of which nothing is known here.
    """
    if "://" in target:
        raise InvalidConfig(f"{target}: only targets of this machine are tuned; fetch the models into a folder first")
    place = folder / target
    if place.is_dir() and not (place / "__init__.py").is_file():
        return _of_repository(place, settings)
    arguments = DeclaredArguments(
        target=target, folder=str(folder), model_roots=[str(root) for root in model_roots], settings=settings
    )
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", _MODULE, msgspec.json.encode(arguments).decode()],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"{target}: was not imported within {_WITHIN_S:g} s") from error
    try:
        return msgspec.json.decode(ended.stdout.rpartition(b"\x00")[2], type=Declared)
    except msgspec.MsgspecError:
        said = ended.stderr.decode("utf-8", "replace").strip()
        raise SetupError(said.rpartition("trilith: ")[2] or f"{target}: cannot be imported") from None


def _of_repository(place: Path, settings: Settings) -> Declared:
    models, values = [], {}
    for child in sorted(child for child in place.iterdir() if child.is_dir() and not child.name.startswith(".")):
        model, found = declared_model(child.name, child, settings.models.get(child.name, {}))
        models.append(model)
        values.update(found)
    return Declared(services=[], models=models, values=values)


def declared_model(name: str, folder: Path, settings: Mapping[str, Any]) -> tuple[DeclaredModel, dict[str, Value]]:
    """What a model's folder declares, with what is set of it, and the values by path."""
    spec = read_spec(name, folder, settings=settings)
    backend = spec.backend or ("onnxruntime" if any(folder.glob("*/model.onnx")) else "")
    values: dict[str, Value] = {
        "instances": spec.instances.count,
        "backend": backend or None,
        "max_batch_size": _rows(spec),
        "batching.max_wait_ms": spec.queue.max_wait_s * 1e3,
        "session.intra_op_threads": spec.session.intra_op_threads,
        "session.inter_op_threads": spec.session.inter_op_threads,
        "session.spinning": spec.session.spinning,
        "session.parallel": spec.session.parallel,
        "session.optimization": spec.session.optimization,
        "session.denormal_as_zero": spec.session.denormal_as_zero,
    }
    model = DeclaredModel(
        name=name,
        folder=str(folder),
        batches=spec.max_batch_size is None or spec.max_batch_size > 1,
        threads=backend in _THREADED,
    )
    return model, {setting_path(("models", name, *key.split("."))): value for key, value in values.items()}


def _rows(spec: ModelSpec) -> int | None:
    return spec.max_batch_size if spec.max_batch_size is not None else spec.default_rows

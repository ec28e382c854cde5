"""The model files of models/: where they are on this machine. For programs that load them without the runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from trilith.runtime.sources import Progress, resolve

MODELS: Final = Path(__file__).parent / "models"


def model_path(name: str, progress: Progress | None = None) -> Path:
    """The ONNX file of a model in models/, fetched on first use.

    Raises:
        SetupError: it cannot be fetched.
    """
    configuration = yaml.safe_load((MODELS / name / "model.yaml").read_text())
    return resolve(configuration["source"], sha256=configuration["sha256"], progress=progress, base=MODELS / name)

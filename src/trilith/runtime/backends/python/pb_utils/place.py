"""Where a model lies, for models that read files beside what serves them."""

from __future__ import annotations

from pathlib import Path


class Place:
    """Set once, by the process, before the model is imported."""

    model_dir = Path()


def get_model_dir() -> str:
    """The folder of the model's version; also of a model that a backend's `model.py` serves, which lies elsewhere."""
    return str(Place.model_dir)

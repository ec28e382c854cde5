"""From the name of a model to its folder: the one resolver of `trilith.model(REFERENCE)`.

Rule: one error, which lists where was looked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trilith.errors import UnknownReference


def find_model(reference: str, roots: Sequence[Path]) -> Path:
    """The folder of the model called `reference` in the first root that has one.

    Args:
        reference: a model's name; one path segment.
        roots: model repositories, in order.

    Raises:
        UnknownReference: no root has it, or it is not a name.
    """
    if not reference or reference != Path(reference).name:
        raise UnknownReference(
            f"trilith.model({reference!r}): a model's name is the name of its folder, without a path"
        )
    for root in roots:
        folder = root / reference
        if folder.is_dir():
            return folder
    looked = ", ".join(str(root / reference) for root in roots) or "nowhere: there are no model folders"
    raise UnknownReference(
        f"there is no model {reference!r}; looked in {looked}. Put its folder there, or name another repository with"
        " --models"
    )


def default_roots(source_folder: Path, extra: Sequence[Path] = (), *, here: Path | None = None) -> list[Path]:
    """Where the models of an application are looked up: `extra`, then `models/` beside its source, then `here`.

    `here`: by default the current folder.
    """
    candidates = [*extra, source_folder / "models", (here or Path.cwd()) / "models"]
    return list(dict.fromkeys(path.resolve() for path in candidates))

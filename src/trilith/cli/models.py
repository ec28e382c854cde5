"""`trilith models`: look at a repository and its configurations without serving them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trilith.errors import InvalidConfig, UnknownReference

if TYPE_CHECKING:
    from trilith.runtime import CheckedModel


def check(
    path: Path,
    /,
    *,
    backend_directory: Path | None = None,
    repoagent_directory: Path | None = None,
    gpu_instances_on_cpu: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Say in words what configurations mean, what is wrong with them, and how to mend it.

    Parameters
    ----------
    path
        A model repository, the folder of one model, or its config.pbtxt or model.yaml.
    backend_directory
        Folder of backends of your own, as it is given to `trilith serve`.
    repoagent_directory
        Folder of repository agents of your own, the same.
    gpu_instances_on_cpu
        Take it that models that ask for a GPU are run on a CPU.
    json
        Print JSON instead of text.
    """
    found = _checked(path, backend_directory, repoagent_directory, gpu_instances_on_cpu=gpu_instances_on_cpu)
    if not found:
        raise UnknownReference(f"{path}: there is no model in it; a model is a folder NAME/VERSION with a model file")
    if json:
        _print_json(found)
    else:
        for model in found:
            _explain(model)
        wrong = sum(not model.ok for model in found)
        told = f"{wrong} of them cannot be served" if wrong else "all of which can be served"
        sys.stdout.write(f"{len(found)} models, {told}\n" if len(found) != 1 else "")
    return 0 if all(model.ok for model in found) else 1


def list_(
    path: Path,
    /,
    *,
    backend_directory: Path | None = None,
    repoagent_directory: Path | None = None,
    gpu_instances_on_cpu: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """List the models of a repository.

    Parameters
    ----------
    path
        A model repository.
    backend_directory
        Folder of backends of your own, as it is given to `trilith serve`.
    repoagent_directory
        Folder of repository agents of your own, the same.
    gpu_instances_on_cpu
        Take it that models that ask for a GPU are run on a CPU.
    json
        Print JSON instead of a table.
    """
    found = _checked(path, backend_directory, repoagent_directory, gpu_instances_on_cpu=gpu_instances_on_cpu)
    if json:
        _print_json(found)
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "versions", "backend", "", box=None)
    for model in found:
        table.add_row(model.name, ", ".join(map(str, model.versions)), model.backend, model.problem)
    Console().print(table)
    return 0


def convert(source: Path, destination: Path | None = None, /) -> int:
    """Turn a config.pbtxt into a model.yaml, or a model.yaml into a config.pbtxt.

    Parameters
    ----------
    source
        The file, or the folder of the model.
    destination
        The file to write, which must not exist; left out: standard output.
    """
    from trilith.runtime import convert_config

    written = convert_config(source)
    if destination is None:
        sys.stdout.write(written)
        return 0
    try:
        with destination.open("x", encoding="utf-8") as file:
            file.write(written)
    except FileExistsError:
        raise InvalidConfig(
            f"{destination} exists already and is left as it is; remove it, or name another file"
        ) from None
    except OSError as error:
        raise InvalidConfig(f"{destination} cannot be written: {error.strerror}") from None
    return 0


def _checked(
    path: Path, backend_directory: Path | None, repoagent_directory: Path | None, *, gpu_instances_on_cpu: bool
) -> list[CheckedModel]:
    from trilith.runtime import check_models

    for option, folder in (
        ("--backend-directory", backend_directory),
        ("--repoagent-directory", repoagent_directory),
    ):
        if folder is not None and not folder.is_dir():
            raise InvalidConfig(f"{option} {folder}: there is no such folder")
    return check_models(
        path,
        backend_directory=backend_directory,
        repoagent_directory=repoagent_directory,
        gpu_instances_on_cpu=gpu_instances_on_cpu,
    )


def _print_json(found: list[CheckedModel]) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")


def _explain(model: CheckedModel) -> None:
    sys.stdout.write(f"{model.name}: {'configuration ok, files not opened' if model.ok else 'cannot be served'}\n")
    for line in (*([model.problem] if model.problem else ()), *model.meaning):
        sys.stdout.write(f"  {line}\n")
    for line in model.without_effect:
        sys.stdout.write(f"  {line}\n")
    for line in model.advice:
        sys.stdout.write(f"  perhaps not meant: {line}\n")

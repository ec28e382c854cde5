"""From `module:Name` or `path/to/file.py:Name` to the service that it names."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from types import ModuleType
from typing import Any

from trilith.errors import InvalidConfig, UnknownReference
from trilith.service.spec import SERVICE_ATTRIBUTE, ServiceSpec


def load_target(target: str, *, folder: str | pathlib.Path | None = None) -> Any:
    """Imports the user's program and finds the service.

    Args:
        target: `module:Name`, `package.module:Name` or `path/to/file.py:Name`. Without `:Name` the module must have one
            service that no other one of it depends on.
        folder: where modules and relative paths are looked for first; None for the current folder.

    Returns:
        The decorated class or function.

    Raises:
        UnknownReference: there is no such module or name; the message lists what there is.
        InvalidConfig: the name is something else than a service, or the module itself cannot be imported.
    """
    base = pathlib.Path.cwd() if folder is None else pathlib.Path(folder)
    place, _, name = target.partition(":")
    if not place:
        raise UnknownReference(f"a target is `module:Name` or `path/to/file.py:Name`, got {target!r}")
    module = _from_file(base / place, target) if place.endswith(".py") else _from_name(place, base, target)
    return _named(module, name, target) if name else _only(module, target)


def _on_path(folder: pathlib.Path) -> None:
    text = str(folder.resolve())
    if text not in sys.path:
        sys.path.insert(0, text)


def _from_name(name: str, base: pathlib.Path, target: str) -> ModuleType:
    _on_path(base)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = sorted(path.stem for path in base.glob("*.py"))
            raise UnknownReference(
                f"{target}: there is no module {error.name!r}; looked in {base} (modules: {', '.join(here) or 'none'}) "
                "and in the installed packages"
            ) from error
        raise InvalidConfig(f"{target}: importing {name} failed: {error}; is it installed?") from error
    except Exception as error:
        raise InvalidConfig(f"{target}: importing {name} raised {type(error).__name__}: {error}") from error


def _from_file(path: pathlib.Path, target: str) -> ModuleType:
    if not path.is_file():
        here = sorted(found.name for found in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise UnknownReference(
            f"{target}: there is no file {path}; its folder has {', '.join(here) or 'no Python file'}"
        )
    # The file's folder goes on the path and its name becomes a module's: what it imports beside itself is found, and
    # importing it again by name gives the same classes.
    _on_path(path.parent)
    loaded = sys.modules.get(path.stem)
    if loaded is not None and _same_file(loaded, path):
        return loaded
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UnknownReference(f"{target}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise InvalidConfig(f"{target}: importing {path} raised {type(error).__name__}: {error}") from error
    return module


def _same_file(module: ModuleType, path: pathlib.Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and pathlib.Path(file).resolve() == path.resolve()


def services_of(module: ModuleType) -> dict[str, ServiceSpec]:
    """The services among a module's names."""
    found = {}
    for name, value in vars(module).items():
        spec = getattr(value, "__dict__", {}).get(SERVICE_ATTRIBUTE)
        if isinstance(spec, ServiceSpec):
            found[name] = spec
    return found


def _list(module: ModuleType) -> str:
    return ", ".join(services_of(module)) or "no service"


def _named(module: ModuleType, name: str, target: str) -> Any:
    if not hasattr(module, name):
        raise UnknownReference(f"{target}: {module.__name__} has no {name!r}; it has {_list(module)}")
    found = getattr(module, name)
    if name not in services_of(module):
        raise InvalidConfig(
            f"{target}: {name} is not a service: put @trilith.service on it; {module.__name__} has {_list(module)}"
        )
    return found


def _only(module: ModuleType, target: str) -> Any:
    found = services_of(module)
    inner = {dependency.spec for spec in found.values() for dependency in spec.dependencies.values()}
    roots = {
        name: spec for name, spec in found.items() if spec not in inner and spec.target.__module__ == module.__name__
    }
    if len(roots) != 1:
        raise UnknownReference(f"{target}: say which service, `{target}:NAME`; {module.__name__} has {_list(module)}")
    return getattr(module, next(iter(roots)))

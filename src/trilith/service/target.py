"""What `trilith serve` is given: a folder of models, or a service as `module:Name` or `path/to/file.py:Name`.

parse_target("app.py:Ocr")      what kind it is, without importing anything: for who starts processes
load_target("app.py:Ocr")       imports it and gives the service: for who runs the user's code
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import pathlib
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from trilith.core.foreign import error_text, named_error
from trilith.errors import InvalidConfig, UnknownReference
from trilith.service.spec import SERVICE_ATTRIBUTE, ServiceSpec

_FORMS: Final = "a target is a folder of models, `module:Name` or `path/to/file.py:Name`"
_APPLICATION_FILES: Final = (".yaml", ".yml", ".toml", ".json")
_SHOWN: Final = 20
_EXTRAS: Final = {
    "PIL": "image",
    "lightgbm": "lightgbm",
    "onnxruntime": "onnx",
    "openvino": "openvino",
    "pandas": "frames",
    "pyarrow": "frames",
    "sklearn": "sklearn",
    "skops": "sklearn",
    "torch": "pytorch",
    "xgboost": "xgboost",
}


class TargetKind(enum.StrEnum):
    """What a target names."""

    FOLDER = "folder"
    MODULE = "module"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target, read.

    Attributes:
        kind: what it names.
        place: the folder's or file's path as it was given, or the module's name.
        name: the service in it; "" for the one that no other depends on.
    """

    kind: TargetKind
    place: str
    name: str = ""


def parse_target(
    text: str,
    *,
    folder: str | pathlib.Path | None = None,
    is_file: Callable[[pathlib.Path], bool] = pathlib.Path.is_file,
) -> Target:
    """What a target names. Looks at the file system; imports nothing, so a module may still turn out to be missing.

    Args:
        text: what the user wrote.
        folder: where relative paths and modules begin; None for the current folder.
        is_file: whether there is such a Python file; by default, whether it lies there now.

    Raises:
        UnknownReference: there is no such folder or file; the message lists what there is.
        InvalidConfig: it is no target, or of a kind that is not supported.
    """
    base = pathlib.Path.cwd() if folder is None else pathlib.Path(folder)
    is_package = text.isidentifier() and is_file(base / text / "__init__.py")
    if text and (base / text).is_dir() and not is_package:
        return Target(kind=TargetKind.FOLDER, place=text)
    place, colon, name = text.partition(":")
    if not place or (colon and not name.isidentifier()):
        raise InvalidConfig(f"{_FORMS}, got {text!r}")
    if place.endswith(_APPLICATION_FILES):
        raise InvalidConfig(f"{text}: application files are not supported yet; serve `module:Name`")
    if place.endswith(".py"):
        if not is_file(base / place):
            raise UnknownReference(f"{text}: there is no file {base / place}; {_beside(base / place)}")
        return Target(kind=TargetKind.FILE, place=place, name=name)
    if (base / place).is_file():
        raise InvalidConfig(f"{text}: {place} is neither a folder nor a Python file; {_FORMS}")
    if all(part.isidentifier() for part in place.split(".")):
        if not colon and not _may_be_module(place, base, is_file):
            raise UnknownReference(f"{text}: there is no folder and no module of that name; {_beside(base / place)}")
        module = place.rpartition(".")[0]
        if not colon and module and is_file(base / f"{module.replace('.', '/')}.py"):
            raise UnknownReference(f"{text}: {module} is a module and no package{_guess(place)}")
        return Target(kind=TargetKind.MODULE, place=place, name=name)
    raise UnknownReference(f"{text}: there is no folder {base / place}; {_beside(base / place)}")


def _may_be_module(name: str, base: pathlib.Path, is_file: Callable[[pathlib.Path], bool]) -> bool:
    top = name.partition(".")[0]
    if (
        top in sys.modules
        or (base / top).is_dir()
        or any(is_file(base / at) for at in (f"{top}.py", f"{top}/__init__.py"))
    ):
        return True
    return importlib.util.find_spec(top) is not None


def _beside(path: pathlib.Path) -> str:
    """What could have been meant: folders and Python files in the nearest folder that exists."""
    folder = path.parent
    while not folder.is_dir():
        folder = folder.parent
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", "__")))
    found = [f"{entry.name}/" for entry in entries if entry.is_dir()]
    found += [entry.name for entry in entries if entry.suffix == ".py"]
    shown = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
    return f"{folder} has {shown or 'no folder and no Python file'}"


def load_target(
    target: str,
    *,
    folder: str | pathlib.Path | None = None,
    is_file: Callable[[pathlib.Path], bool] = pathlib.Path.is_file,
) -> Any:
    """Imports the user's program and finds the service.

    Args:
        target: `module:Name`, `package.module:Name` or `path/to/file.py:Name`. Without `:Name` the module must have one
            service that no other one of it depends on.
        folder: where modules and relative paths are looked for first; None for the current folder.
        is_file: whether Python's import finds such a file; by default, whether it lies there now.

    Returns:
        The decorated class or function.

    Raises:
        UnknownReference: there is no such module or name; the message lists what there is.
        InvalidConfig: the name is something else than a service, or the module itself cannot be imported.
    """
    base = pathlib.Path.cwd() if folder is None else pathlib.Path(folder)
    found = parse_target(target, folder=base, is_file=is_file)
    if found.kind is TargetKind.FOLDER:
        raise InvalidConfig(f"{target} is a folder of models, not a service; {_FORMS}")
    by_path = found.kind is TargetKind.FILE
    module = _from_file(base / found.place, target) if by_path else _from_name(found.place, base, target)
    return _named(module, found.name, target) if found.name else _only(module, target)


def load_named(
    target: str,
    *,
    folder: str | pathlib.Path | None = None,
    is_file: Callable[[pathlib.Path], bool] = pathlib.Path.is_file,
) -> Any:
    """Imports a module of the user's and gives what it has under a name: see `load_target`, but it need be no service.

    Raises:
        UnknownReference: there is no such module or name.
        InvalidConfig: no name is said, or the module itself cannot be imported.
    """
    base = pathlib.Path.cwd() if folder is None else pathlib.Path(folder)
    found = parse_target(target, folder=base, is_file=is_file)
    if found.kind is TargetKind.FOLDER or not found.name:
        raise InvalidConfig(f"{target}: expected `module:name` or `path/to/file.py:name`")
    by_path = found.kind is TargetKind.FILE
    module = _from_file(base / found.place, target) if by_path else _from_name(found.place, base, target)
    if not hasattr(module, found.name):
        raise UnknownReference(f"{target}: {module.__name__} has no {found.name!r}")
    return getattr(module, found.name)


def _on_path(folder: pathlib.Path) -> None:
    """Behind the standard library, before what is installed: a `types.py` of the user must not be Python's `types`."""
    text = str(folder.resolve())
    if text in sys.path:
        return
    standard = sysconfig.get_paths()
    behind = [sys.path.index(standard[part]) + 1 for part in ("stdlib", "platstdlib") if standard[part] in sys.path]
    # The folder of the standard library's compiled modules stands behind both, under a name that sysconfig has not.
    behind += [at + 1 for at, place in enumerate(sys.path) if place.endswith("lib-dynload")]
    sys.path.insert(max(behind, default=0), text)


def _from_name(name: str, base: pathlib.Path, target: str) -> ModuleType:
    _on_path(base)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = sorted(path.stem for path in base.glob("*.py"))
            raise UnknownReference(
                f"{target}: there is no module {error.name!r}{_guess(target)}; looked in {base} "
                f"(modules: {', '.join(here) or 'none'}) and in the installed packages"
            ) from error
        raise InvalidConfig(f"{target}: importing {name} failed: {_missing(error)}") from error
    except Exception as error:
        raise InvalidConfig(f"{target}: importing {name} raised {named_error(error)}") from error


def _guess(target: str) -> str:
    """What was meant by `app.Name`."""
    module, dot, name = target.rpartition(".")
    return f" (did you mean `{module}:{name}`?)" if dot and ":" not in target else ""


def _missing(error: ModuleNotFoundError) -> str:
    extra = _EXTRAS.get(error.name or "")
    return error_text(error) + (f": pip install 'trilith[{extra}]'" if extra else "; is it installed?")


def _from_file(path: pathlib.Path, target: str) -> ModuleType:
    # The file's folder goes on the path and its name becomes a module's: what it imports beside itself is found, and
    # importing it again by name gives the same classes.
    _on_path(path.parent)
    name, loaded = path.stem, sys.modules.get(path.stem)
    if loaded is not None and _same_file(loaded, path):
        return loaded
    if name in sys.stdlib_module_names or (loaded is not None and _is_installed(loaded)):
        name = f"served_{name}"  # `queue.py` may be served, and the rest of the process still gets Python's `queue`
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UnknownReference(f"{target}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        del sys.modules[name]
        raise InvalidConfig(f"{target}: importing {path} failed: {_missing(error)}") from error
    except ImportError as error:
        del sys.modules[name]
        if "relative import" in error_text(error):
            raise InvalidConfig(f"{target}: {_in_package(path, target)}") from error
        raise InvalidConfig(f"{target}: importing {path} raised {named_error(error)}") from error
    except Exception as error:
        del sys.modules[name]
        raise InvalidConfig(f"{target}: importing {path} raised {named_error(error)}") from error
    return module


def _in_package(path: pathlib.Path, target: str) -> str:
    """What to do about a file with relative imports: it is served as a module of its package."""
    parts, folder = [path.stem], path.resolve().parent
    while (folder / "__init__.py").is_file() or (len(parts) == 1 and folder.name.isidentifier()):
        parts.insert(0, folder.name)
        folder = folder.parent
    _, colon, name = target.partition(":")
    return (
        f"{path.name} imports relatively (`from . import ...`), so it is part of a package, which a file by itself is"
        f" not; in {folder} say `trilith serve {'.'.join(parts)}{colon}{name}`"
    )


def _is_installed(module: ModuleType) -> bool:
    places = sysconfig.get_paths()
    return (getattr(module, "__file__", None) or "").startswith((places["purelib"], places["platlib"]))


def _same_file(module: ModuleType, path: pathlib.Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and pathlib.Path(file).resolve() == path.resolve()


def services_of(module: ModuleType) -> dict[str, ServiceSpec]:
    """The services among a module's names."""
    found = {}
    for name, value in vars(module).items():
        try:
            spec = getattr(value, "__dict__", {}).get(SERVICE_ATTRIBUTE)
        except Exception:  # noqa: BLE001 - a stand-in for something that is not there now, `flask.request` say
            continue
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

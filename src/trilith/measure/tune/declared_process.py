"""The process in which a service is imported to know what it declares.

Started by `declared` as `python -P -m trilith.measure.tune.declared_process ARGUMENTS`.
"""

from __future__ import annotations

import inspect
import sys
import sysconfig
from pathlib import Path

import msgspec

import trilith
from trilith.config import setting_path
from trilith.errors import TrilithError
from trilith.measure.tune.declaration import Declared, DeclaredMethod, DeclaredService
from trilith.measure.tune.declared import DeclaredArguments, declared_model
from trilith.runtime import default_roots, find_model
from trilith.service import apply_settings, load_target, service_graph, spec_of


def _of_application(arguments: DeclaredArguments) -> Declared:
    before = set(sys.modules)
    root = spec_of(load_target(arguments.target, folder=arguments.folder))
    graph = service_graph(root)
    apply_settings(graph, arguments.settings.services, arguments.settings.models)
    services, values = [], {}
    hosted: dict[str, None] = {}
    for spec in graph:
        used = [model.reference for model in spec.models.values() if model.placement == "node"]
        hosted.update(dict.fromkeys(used))
        for option in ("replicas", "cpu", "threads", "concurrency", "timeout_s", "max_waiting"):
            values[setting_path(("services", spec.name, option))] = getattr(spec.options, option)
        for method in spec.methods.values():
            place = ("services", spec.name, method.name)
            values[setting_path((*place, "timeout_s"))] = method.timeout_s
            if method.options.batch is not None:
                values[setting_path((*place, "max_batch"))] = method.options.batch.max_size
                values[setting_path((*place, "max_wait_ms"))] = method.options.batch.max_wait_ms
        services.append(
            DeclaredService(
                name=spec.name,
                methods=[
                    DeclaredMethod(name=each.name, path=each.routes[0], batched=each.options.batch is not None)
                    for each in spec.methods.values()
                ],
                models=used,
            )
        )
    roots = default_roots(
        Path(inspect.getfile(root.target)).parent,
        [Path(path) for path in arguments.model_roots],
        here=Path(arguments.folder),
    )
    models = []
    for name in hosted:
        model, found = declared_model(name, find_model(name, roots), arguments.settings.models.get(name, {}))
        models.append(model)
        values.update(found)
    return Declared(services=services, models=models, values=values, files=_own_files(before))


def _own_files(before: set[str]) -> list[str]:
    """The files of the modules that were loaded since, without those that are installed."""
    found = set()
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__file__", None)
        if isinstance(path, str) and Path(path).is_file() and not _is_installed(Path(path)):
            found.add(str(Path(path).resolve()))
    return sorted(found)


def _is_installed(path: Path) -> bool:
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(path.is_relative_to(each) for each in installed) or path.is_relative_to(Path(trilith.__file__).parent)


def main() -> int:
    """Entry point of the process: the answer stands behind the last NUL, since importing may print."""
    arguments = msgspec.json.decode(sys.argv[1], type=DeclaredArguments)
    try:
        found = _of_application(arguments)
    except TrilithError as error:
        sys.stderr.write(f"trilith: {error.message}\n")
        return 2
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\x00" + msgspec.json.encode(found))
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

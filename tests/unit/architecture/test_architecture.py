"""What the import contracts cannot say: floors see only fronts, and each outside world enters through few files."""

from __future__ import annotations

import ast
from pathlib import Path

import trilith

ROOT = Path(trilith.__file__).parent
FLOORS = ("net", "runtime", "service", "orchestration", "measure", "cli")
# What other floors may import of a floor: its front (""), and what is a front of its own.
FRONTS = {
    "net": {"http1", "grpc", "listen", "transport"},
    "runtime": {"", "protocol", "sources", "sources.console"},
    "service": {""},
    "orchestration": {""},
    "measure": {""},
    "cli": {""},
}
# Libraries that bring in an outside world, and the files that may import them.
ENTRANCES = {
    "onnxruntime": {"runtime/backends/onnxruntime.py"},
    "prometheus_client": {"telemetry/exposition.py"},
    "watchfiles": {"orchestration/engine/reload.py"},
    "tritonclient": set(),  # its message modules are loaded by file, without its package
    "grpc": set(),
    "h2": set(),
    "hyperframe": set(),
    "ray": set(),
    "torch": set(),
    "cv2": set(),
    "yaml": {"config/loader.py"},
}


def _files():
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(), str(path))


def _imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module, tuple(alias.name for alias in node.names)


def test_floors_import_only_the_fronts_of_other_floors():
    wrong = []
    for path, tree in _files():
        own = path.split("/")[0]
        if own in ("testing", "__init__.py"):  # twins of ports live where the ports are imported from
            continue
        for node, module, names in _imports(tree):
            parts = module.split(".")
            if parts[0] != "trilith" or len(parts) < 2 or parts[1] == own or parts[1] not in FLOORS:
                continue
            front = ".".join(parts[2:])
            if front in FRONTS[parts[1]]:
                continue
            if not front and set(names) <= FRONTS[parts[1]]:
                continue
            wrong.append(f"{path}:{node.lineno} imports {module}")
    assert wrong == []


def test_outside_worlds_enter_through_few_files():
    wrong = []
    for path, tree in _files():
        for node, module, _ in _imports(tree):
            library = module.split(".")[0]
            if library in ENTRANCES and path not in ENTRANCES[library]:
                wrong.append(f"{path}:{node.lineno} imports {module}")
    assert wrong == []


def test_deciders_are_pure():
    impure = {"asyncio", "socket", "ssl", "threading", "time", "os", "subprocess", "uvloop", "logging", "random"}
    deciders = ("runtime/schedule/", "orchestration/reconcile", "orchestration/routing", "orchestration/state")
    deciders += ("orchestration/retry", "orchestration/deadlines", "orchestration/health")
    wrong = [
        f"{path}:{node.lineno} imports {module}"
        for path, tree in _files()
        if path.startswith(deciders)
        for node, module, _ in _imports(tree)
        if module.split(".")[0] in impure
    ]
    assert wrong == []


def test_no_assert_rejects_what_a_user_gave():
    """Asserts vanish under -O. They may state what the type checker cannot see, and nothing else."""
    found = [
        f"{path}:{node.lineno}" for path, tree in _files() for node in ast.walk(tree) if isinstance(node, ast.Assert)
    ]
    assert len(found) <= 12, found


def test_error_codes_are_unique_and_mapped():
    from trilith import errors
    from trilith.wire.grpc_status import grpc_status
    from trilith.wire.http_status import http_status

    def walk(kind):
        yield kind
        for child in kind.__subclasses__():
            if child.__module__ == errors.__name__:  # tests have subclasses of their own
                yield from walk(child)

    kinds = list(walk(errors.TrilithError))
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    for kind in kinds:
        error = errors.error_from_code(kind.code, "message")
        assert type(error) is kind
        assert 400 <= http_status(error) <= 599
        assert grpc_status(error) != 0
    blamed_on_caller = [kind for kind in kinds if issubclass(kind, errors.CallerError)]
    assert all(http_status(kind("m")) < 500 or kind is errors.Unsupported for kind in blamed_on_caller)


def test_import_is_lazy():
    import subprocess
    import sys

    heavy = ("numpy", "pydantic", "asyncio", "msgspec", "rich", "cyclopts", "uvloop", "onnxruntime", "grpc")
    code = f"import sys, trilith; print([name for name in {heavy!r} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"

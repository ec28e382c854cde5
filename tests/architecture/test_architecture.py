"""What the import contracts cannot say: floors see only fronts, and each outside world enters through few files."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from pathlib import Path

import trilith

ROOT = Path(trilith.__file__).parent
PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
FLOORS = ("net", "runtime", "service", "orchestration", "measure", "cli")
# What other floors may import of a floor: its front (""), and what is a front of its own.
FRONTS = {
    "net": {"http1", "grpc", "held_bytes", "listen", "transport"},
    "runtime": {"", "protocol", "sources", "sources.console"},
    "service": {"", "client"},
    "orchestration": {""},
    "measure": {"", "capacity", "compare", "diagnose", "tune"},
    "cli": {""},
}
# Libraries that bring in an outside world, and the files that may import them.
ENTRANCES = {
    "onnxruntime": {"runtime/backends/onnxruntime.py"},
    "httptools": {
        "wire/http1/reader.py",
        "wire/http1/answer_reader.py",
        "measure/load/connection.py",
        "measure/load/probe.py",
    },
    "wsproto": {"wire/relayed_websocket.py", "wire/websocket.py", "wire/websocket_client.py"},
    "websockets": set(),
    "hpack": {"wire/http2/header_decoder.py", "wire/http2/header_encoder.py"},
    "httpx": {"service/client/transport.py"},
    "pydantic": {"service/codecs/types.py"},
    "pydantic_core": {"service/codecs/types.py", "service/codecs/result.py"},
    "PIL": {"service/codecs/images.py"},
    "python_multipart": {"service/codecs/multipart.py"},
    "prometheus_client": {"telemetry/exposition.py"},
    "watchfiles": {"orchestration/engine/reload.py"},
    "tritonclient": set(),  # its message modules are loaded by file, without its package
    "grpc": set(),
    "h2": set(),
    "fsspec": {"runtime/roots.py"},
    "hyperframe": set(),
    "ray": set(),
    "torch": {"runtime/backends/pytorch.py", "runtime/backends/python/pb_utils/tensor.py", "service/codecs/tensors.py"},
    "pandas": {"service/codecs/frames.py"},
    "pyarrow": {
        "service/codecs/frames.py",
        "service/codecs/table_files.py",
        "service/codecs/table_json.py",
        "service/codecs/tables.py",
    },
    "openvino": {"runtime/backends/openvino.py"},
    "sklearn": {"runtime/backends/sklearn.py"},
    "skops": {"runtime/backends/sklearn.py"},
    "joblib": {"runtime/backends/sklearn.py"},
    "threadpoolctl": {"runtime/backends/sklearn.py"},
    "xgboost": {"runtime/backends/xgboost.py"},
    "lightgbm": {"runtime/backends/lightgbm.py"},
    "cv2": set(),
    "pytest": {"testing/load_fixture.py"},
    "yaml": {"config/loader.py", "config/yaml_patch.py"},
}


@functools.cache
def _files():
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(), str(path)))
        for path in sorted(ROOT.rglob("*.py"))
    )


@functools.cache
def _nodes(tree):
    return tuple(ast.walk(tree))


def _imports(tree):
    for node in _nodes(tree):
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


def _calls_itself_pure(tree):
    return re.search(r"\bPure\b|: pure\b", ast.get_docstring(tree) or "")


def test_what_calls_itself_pure_is_held_to_it():
    """By the import contract, whose list is the only one: what is not in it would only say so."""
    [contract] = (each for each in PYPROJECT["tool"]["importlinter"]["contracts"] if each["name"] == "What is pure")
    listed = tuple(contract["source_modules"])
    modules = {_module_of(path): tree for path, tree in _files()}
    assert [module for module in listed if module not in modules] == []
    inside = tuple(f"{module}." for module in listed)
    wrong = [
        module
        for module, tree in modules.items()
        if _calls_itself_pure(tree) and module not in listed and not module.startswith(inside)
    ]
    assert wrong == []


def _module_of(path):
    return f"trilith.{path}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_nothing_relies_on_an_assert():
    """Asserts vanish under -O."""
    found = [
        f"{path}:{node.lineno}" for path, tree in _files() for node in _nodes(tree) if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_error_codes_are_unique_and_mapped():
    from trilith import errors
    from trilith.wire.grpc_status import grpc_status
    from trilith.wire.http_status import error_of_status, http_status

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
        assert isinstance(error, type(error_of_status(http_status(error), "message")))  # as exact as a status can be
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


def test_statuses_that_trilith_never_sends_have_somebody_to_blame():
    from trilith import errors
    from trilith.wire.http_status import error_of_status

    assert type(error_of_status(418, "m")) is errors.CallerError
    assert type(error_of_status(521, "m")) is errors.TrilithError
    assert error_of_status(429, "m", retry_after_s=3.0).retry_after_s == 3.0
    assert isinstance(error_of_status(503, "m"), errors.CapacityError)

"""The tables of docs/reference/ against the code: nothing is missing there, nothing is invented."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path

import msgspec
import pytest

import trilith
import trilith.runtime
from trilith import errors
from trilith.cli.bench import bench
from trilith.cli.compare import compare
from trilith.cli.diagnose import diagnose
from trilith.cli.plan import plan
from trilith.cli.serve import serve
from trilith.cli.tune import tune
from trilith.net.grpc import GrpcLimits
from trilith.net.http1 import HttpLimits
from trilith.runtime import model_yaml
from trilith.runtime.backends import builtin_backends
from trilith.runtime.backends.python.supervision import EndKind
from trilith.runtime.idle_fields import IDLE
from trilith.runtime.model_fields import HONOURED
from trilith.service import spec_of
from trilith.service.names import OWN_PATHS
from trilith.service.options import ApiOptions, Batch, ServiceOptions
from trilith.wire.grpc_status import grpc_status
from trilith.wire.http_status import http_status

DOCS = Path(__file__).parents[3] / "docs"
CODE = re.compile(r"`([^`]+)`")


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of its level."""
    text = (DOCS / page).read_text(encoding="utf-8")
    marks = heading.split()[0]
    begin = text.index(f"\n{heading}\n")
    end = re.search(rf"\n{marks} ", text[begin + len(heading) :])
    return text[begin : begin + len(heading) + end.start()] if end else text[begin:]


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, heads and rules left out."""
    found = []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        is_head = at + 1 < len(lines) and lines[at + 1].startswith("|--")
        if line.startswith("|") and not line.startswith("|--") and not is_head:
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def first_column(text: str) -> list[str]:
    return [name for row in rows(text) for name in CODE.findall(row[0])]


def tree(root: type[errors.TrilithError]) -> Iterator[type[errors.TrilithError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == "trilith.errors":
            yield from tree(child)


def test_every_error_is_listed_with_its_statuses():
    listed = {
        (code, name): (int(status), grpc)
        for code, name, status, grpc, *_ in rows(section("reference/errors.md", "## What a caller can get"))
    }
    expected = {
        (f"`{kind.code}`", f"`{kind.__name__}`"): (http_status(kind("")), grpc_status(kind("")).name)
        for kind in tree(errors.TrilithError)
        if not issubclass(kind, errors.SetupError)
    }
    assert listed == expected


def test_every_error_of_a_start_is_listed():
    text = section("reference/errors.md", "## What a start or a load can fail with")
    assert {(row[0], row[1]) for row in rows(text)} == {
        (f"`{kind.code}`", f"`{kind.__name__}`") for kind in tree(errors.SetupError)
    }


def test_the_tree_is_drawn_as_it_is():
    names = {kind.__name__ for kind in tree(errors.TrilithError)}
    drawn, above = [], []
    for line in errors.__doc__.splitlines():
        indent, name = len(line) - len(line.lstrip()), line.split(maxsplit=1)[0] if line.strip() else ""
        if name in names:
            del above[(indent - 4) // 2 :]
            drawn.append((name, above[-1] if above else "Exception"))
            above.append(name)
    assert sorted(drawn) == sorted((kind.__name__, kind.__base__.__name__) for kind in tree(errors.TrilithError))


def test_every_reason_of_a_restart_is_listed():
    table = rows(section("orchestration.md", "## Health and metrics"))
    (what,) = [row[-1] for row in table if row[0] == "`trilith_model_restarts_total`"]
    assert CODE.findall(what) == [kind.value for kind in EndKind]


@pytest.mark.parametrize("package", [trilith, trilith.runtime], ids=lambda package: package.__name__)
def test_every_public_name_is_listed(package):
    listed = first_column(section("reference/public-names.md", f"## `{package.__name__}`"))
    assert sorted(listed) == sorted(package.__all__)


def test_every_key_of_model_yaml_is_listed():
    listed = first_column(section("reference/configuration.md", "## model.yaml"))
    tensor = {f"inputs[].{name}" for name in model_yaml._Input.__struct_fields__}
    output = {
        f"outputs[].{name}"
        for name in set(model_yaml._Output.__struct_fields__) - set(model_yaml._Tensor.__struct_fields__)
    }
    expected = {*tensor, *output, *model_yaml.Model.__struct_fields__}
    for name, kind in (
        ("instances", model_yaml._Instances),
        ("batching", model_yaml._Batching),
        ("queue", model_yaml._Queue),
        ("inputs[].pad", model_yaml._Pad),
        ("outputs[].unpad", model_yaml._Unpad),
        ("priority", model_yaml._Priority),
        ("session", model_yaml._Session),
    ):
        expected |= {f"{name}.{key}" for key in kind.__struct_fields__}
    assert set(listed) == expected


def test_every_honoured_field_of_config_pbtxt_is_listed():
    def leaves(honoured: Mapping[str, object], path: str = "") -> Iterator[str]:
        for name, inner in honoured.items():
            if isinstance(inner, Mapping) and inner and name not in ("priority_queue_policy", "model_warmup"):
                yield from leaves(inner, f"{path}{name}.")
            else:
                yield path + name

    listed = first_column(section("reference/configuration.md", "## config.pbtxt"))
    assert sorted(listed) == sorted([*leaves(HONOURED), *IDLE])


@pytest.mark.parametrize(
    ("introduction", "kind"),
    [
        ("`@trilith.service(...)`:", ServiceOptions),
        ("`@trilith.api(...)`;", ApiOptions),
        ("`trilith.Batch(...)`:", Batch),
    ],
)
def test_every_option_of_a_service_is_listed_with_its_default(introduction, kind):
    text = section("reference/configuration.md", "## Services").split(introduction)[1].split("\n\n")[1]
    listed = {CODE.findall(row[0])[0]: row[1] for row in rows(text)}
    assert listed.keys() == {field.name for field in fields(kind)}
    for field in fields(kind):
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert float(listed[field.name]) == field.default, field.name
        elif field.default is None:
            assert not listed[field.name].replace(".", "").isdecimal(), field.name
        assert field.default is not MISSING


def test_defaults_that_follow_from_other_options():
    text = section("reference/configuration.md", "## Services")
    listed = {CODE.findall(row[0])[0]: row[1] for row in rows(text)}
    assert listed["cpu"] == "none"
    assert ServiceOptions().cpu is None

    @trilith.service
    class Waits:
        @trilith.api
        async def wait(self) -> None: ...

    @trilith.service
    class Computes:
        @trilith.api
        def compute(self) -> None: ...

    @trilith.service
    class Mounts:
        page = trilith.mount("/page", lambda environ, start_response: [])

    usual, mounts = spec_of(Waits).concurrency, spec_of(Mounts).concurrency
    threads = "`threads` when no method is async"
    assert listed["concurrency"] == f"{usual}; {threads}; {mounts} with [mounts](../mounts.md)"
    assert spec_of(Computes).concurrency == ServiceOptions().threads
    orchestration = section("orchestration.md", "## Replicas")
    assert f"`max_waiting` ({ServiceOptions().max_waiting})" in orchestration
    assert f"`threads` ({ServiceOptions().threads})" in orchestration


def test_paths_that_no_method_may_have_are_listed():
    listed = CODE.findall(section("reference/configuration.md", "## Ports and paths").split("8001")[0])
    assert sorted(listed) == sorted([*OWN_PATHS, "/timelines/ID", "/v2/..."])


def test_every_option_of_serve_is_listed_with_its_default():
    table = rows(section("reference/configuration.md", "## trilith serve"))
    listed = {option: default for cell, default, *_ in table for option in CODE.findall(cell)}
    parameters = {f"--{name.replace('_', '-')}": p for name, p in inspect.signature(serve).parameters.items()}
    del parameters["--target"]
    assert listed.keys() == parameters.keys()
    for option, parameter in parameters.items():
        if isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
            assert listed[option] in ("", str(parameter.default), f"{parameter.default:g}"), option


def test_every_option_of_bench_is_listed():
    text = section("measure.md", "## The options that matter")
    listed = {option.split()[0] for row in rows(text) for option in CODE.findall(row[0])}
    expected = {f"--{name.replace('_', '-')}" for name in inspect.signature(bench).parameters if name != "url"}
    assert listed == expected


def test_every_option_of_compare_is_listed_with_its_default():
    text = section("compare.md", "## Options")
    listed = {option.split()[0]: option for row in rows(text) for option in CODE.findall(row[0])}
    parameters = {f"--{name.replace('_', '-')}": p for name, p in inspect.signature(compare).parameters.items()}
    del parameters["--targets"]
    assert listed.keys() == parameters.keys()
    assert listed["--concurrency"] == f"--concurrency {parameters['--concurrency'].default}"
    assert listed["--warmup"] == f"--warmup {parameters['--warmup'].default}"


def test_every_option_of_tune_is_listed():
    listed = [option for row in rows(section("tune.md", "## The options")) for option in CODE.findall(row[0])]
    parameters = [f"--{name.replace('_', '-')}" for name in inspect.signature(tune).parameters if name != "target"]
    assert sorted(listed) == sorted(parameters)


def test_every_option_of_plan_is_listed():
    text = section("capacity.md", "## Options")
    listed = {option.split()[0] for row in rows(text) for option in CODE.findall(row[0])}
    assert listed == {f"--{name.replace('_', '-')}" for name in inspect.signature(plan).parameters if name != "sources"}


def test_every_option_of_diagnose_is_listed_with_its_default():
    listed = {CODE.findall(row[0])[0]: row[1] for row in rows(section("diagnose.md", "## The options"))}
    parameters = {f"--{name.replace('_', '-')}": p for name, p in inspect.signature(diagnose).parameters.items()}
    del parameters["--url"]
    assert listed.keys() == parameters.keys()
    for option, parameter in parameters.items():
        if parameter.default not in ((), None, False):
            assert listed[option] == str(parameter.default), option


def test_limits_are_those_of_the_servers():
    table = {row[0]: row[1:] for row in rows(section("reference/configuration.md", "## Limits"))}
    http, grpc = HttpLimits(), GrpcLimits()
    assert table["body, message"][0].startswith(f"{http.max_body_bytes >> 20} MiB")
    assert grpc.max_message_bytes == http.max_body_bytes
    head = f"{http.max_head_bytes >> 10} kB, {http.max_headers} fields; URL {http.max_url_bytes >> 10} kB"
    assert table["head, metadata"] == [head, f"{grpc.max_metadata_bytes >> 10} kB"]
    assert table["connections"] == [str(http.max_connections), str(grpc.max_connections)]
    assert table["requests on a connection"] == [
        f"one at a time, {http.max_pipelined} more wait; over HTTP/2 {http.max_concurrent_streams} at a time",
        f"{grpc.max_concurrent_streams} at a time",
    ]
    assert table["time for the head"] == [
        f"{http.head_timeout_s:g} s",
        f"{grpc.handshake_timeout_s:g} s for the handshake",
    ]
    assert table["time without progress while receiving, sending"] == [
        f"{http.body_timeout_s:g} s, {http.write_timeout_s:g} s",
        f"{grpc.receive_timeout_s:g} s, {grpc.write_timeout_s:g} s",
    ]
    assert table["idle connection"] == [f"{http.idle_timeout_s:g} s", f"{grpc.idle_timeout_s:g} s"]


def test_defaults_of_model_yaml_are_those_of_the_code():
    table = rows(section("reference/configuration.md", "## model.yaml"))
    listed = {CODE.findall(row[0])[0]: row[1] for row in table}
    kinds = {
        "instances": model_yaml._Instances,
        "batching": model_yaml._Batching,
        "queue": model_yaml._Queue,
        "session": model_yaml._Session,
    }
    for name, kind in kinds.items():
        for field in msgspec.structs.fields(kind):
            if field.default is not msgspec.NODEFAULT and isinstance(field.default, bool | int | float | str):
                said = listed[f"{name}.{field.name}"].strip("`").split(":")[0]
                default = str(field.default).lower() if isinstance(field.default, bool) else f"{field.default}"
                assert said in (default, default.removesuffix(".0")), f"{name}.{field.name}"


def test_every_backend_is_listed_with_its_files_and_an_extra_that_there_is():
    pyproject = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())
    listed = {}
    for backend, files, _, extra in rows((DOCS / "backends.md").read_text().partition("\n## ")[0]):
        assert set(CODE.findall(extra)) <= set(pyproject["project"]["optional-dependencies"])
        listed[CODE.findall(backend)[0]] = tuple(name for name in CODE.findall(files) if name != "model.bin")
    assert listed == {name: kind.filenames for name, kind in builtin_backends().items()}

"""A process that uses a snapshot imports its files, whatever has become of them."""

import shutil
import subprocess
import sys

import pytest

from trilith.orchestration.engine.snapshot import take_snapshot

APP = """
import trilith
from pkg.inner.deep import VALUE
import beside

@trilith.service
class S:
    @trilith.api
    def value(self) -> int:
        import pkg.late, space.far
        return VALUE + beside.VALUE + pkg.late.VALUE + space.far.VALUE
"""
FILES = {
    "app.py": APP,
    "beside.py": "VALUE = 1",
    "pkg/__init__.py": "",
    "pkg/inner/__init__.py": "from .deep import VALUE",
    "pkg/inner/deep.py": "VALUE = 10",
    "pkg/late.py": "VALUE = 100",
    "space/far.py": "VALUE = 1000",
}
USE = """
import sys, pathlib
from trilith.orchestration.engine.snapshot import use_snapshot
from trilith.service import load_target
is_file = use_snapshot(pathlib.Path(sys.argv[1]))
found = load_target(sys.argv[3], folder=sys.argv[2], is_file=is_file)
print(found().value())
"""


def garbage(folder):
    for name in FILES:
        (folder / name).write_text("this is not python")


def becomes_packages(folder):
    (folder / "app").mkdir()
    (folder / "app" / "__init__.py").write_text("1 / 0")
    shutil.rmtree(folder / "pkg")
    (folder / "pkg.py").write_text("1 / 0")


@pytest.mark.parametrize(
    "happens",
    [
        lambda folder: None,
        lambda folder: (folder / "app.py").unlink(),
        lambda folder: (folder / "pkg" / "inner" / "deep.py").unlink(),
        lambda folder: shutil.rmtree(folder / "pkg"),
        lambda folder: shutil.rmtree(folder),
        lambda folder: folder.rename(folder.with_name("renamed")),
        garbage,
    ],
    ids=["nothing", "file-gone", "module-gone", "package-gone", "folder-gone", "folder-renamed", "garbage"],
)
def test_the_snapshot_is_imported(tmp_path, happens):
    assert imported(tmp_path, "app.py:S", happens) == "1111"


@pytest.mark.parametrize("target", ["app:S", "app", "{folder}/app.py:S"])
def test_each_kind_of_target_is_found(tmp_path, target):
    assert imported(tmp_path, target, shutil.rmtree) == "1111"


def test_what_became_a_package_or_a_module_is_what_it_was(tmp_path):
    assert imported(tmp_path, "app.py:S", becomes_packages) == "1111"


def imported(tmp_path, target, happens):
    folder = tmp_path / "program"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".#app.py").symlink_to("nobody@nowhere")  # an editor's lock
    take_snapshot(folder, tmp_path / "kept")
    happens(folder)
    command = [sys.executable, "-P", "-c", USE, str(tmp_path / "kept"), str(folder), target.format(folder=folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or done.stderr


PROTO_APP = """
import trilith

@trilith.service(proto="protos/p.proto")
class P:
    @trilith.api
    def ask(self, q: str) -> str:
        return q
"""
USE_PROTO = """
import sys, pathlib
from trilith.orchestration.engine.snapshot import use_snapshot
from trilith.service import load_target, spec_of
is_file = use_snapshot(pathlib.Path(sys.argv[1]))
print(list(spec_of(load_target("app.py:P", folder=sys.argv[2], is_file=is_file)).grpc.methods))
"""


@pytest.mark.parametrize("happens", [lambda path: path.write_text("garbage"), lambda path: path.unlink()])
def test_proto_files_are_those_of_the_snapshot(tmp_path, happens):
    folder = tmp_path / "here"
    (folder / "protos").mkdir(parents=True)
    (folder / "app.py").write_text(PROTO_APP)
    (folder / "protos" / "m.proto").write_text('syntax = "proto3"; package p; message M { string q = 1; }')
    service = 'syntax = "proto3"; package p; import "m.proto"; service P { rpc Ask(M) returns (M); }'
    (folder / "protos" / "p.proto").write_text(service)
    take_snapshot(folder, tmp_path / "snapshot")
    happens(folder / "protos" / "m.proto")
    (folder / "protos" / "p.proto").unlink()
    done = subprocess.run(
        [sys.executable, "-c", USE_PROTO, str(tmp_path / "snapshot"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['ask']\n", done.stderr

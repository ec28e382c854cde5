"""`module:Name` and `file.py:Name`, and the messages for everything else."""

import sys
import uuid

import pytest

from trilith.errors import InvalidConfig, UnknownReference
from trilith.service import load_target, spec_of

SOURCE = """
import trilith
from beside_{key} import VALUE

@trilith.service
class Inner:
    @trilith.api
    def run(self) -> int:
        return VALUE

@trilith.service
class Root:
    inner = trilith.depends(Inner)
    @trilith.api
    async def run(self) -> int:
        return await self.inner.run()

class Other:
    pass
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    key = uuid.uuid4().hex[:8]  # modules stay imported: each test has its own
    (tmp_path / f"app_{key}.py").write_text(SOURCE.format(key=key))
    (tmp_path / f"beside_{key}.py").write_text("VALUE = 4")
    (tmp_path / f"broken_{key}.py").write_text("1 / 0")
    (tmp_path / f"lacks_{key}.py").write_text("import no_such_package_at_all")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return key


def test_by_module(program):
    assert load_target(f"app_{program}:Root").__name__ == "Root"


def test_by_file(program, tmp_path):
    found = load_target(f"app_{program}.py:Root")
    assert found.__name__ == "Root"
    assert load_target(str(tmp_path / f"app_{program}.py") + ":Root") is found
    assert load_target(f"app_{program}:Root") is found


def test_by_another_folder(program, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    assert load_target(f"app_{program}:Root", folder=tmp_path).__name__ == "Root"


def test_without_a_name_the_root_is_meant(program):
    assert spec_of(load_target(f"app_{program}")).name == "Root"


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("app_{}:Nothing", UnknownReference, "app_{} has no 'Nothing'; it has Inner, Root"),
        ("app_{}:Other", InvalidConfig, "Other is not a service: put @trilith.service on it; app_{} has Inner, Root"),
        ("nowhere_{}:Root", UnknownReference, r"there is no module 'nowhere_{}'; looked in .*modules: app_{}, beside"),
        ("nowhere_{}.py:Root", UnknownReference, r"there is no file .*nowhere_{}.py; its folder has app_{}.py"),
        ("broken_{}:Root", InvalidConfig, "importing broken_{} raised ZeroDivisionError"),
        ("broken_{}.py:Root", InvalidConfig, "raised ZeroDivisionError"),
        ("lacks_{}:Root", InvalidConfig, "No module named 'no_such_package_at_all'; is it installed"),
        ("beside_{}", UnknownReference, "say which service, `beside_{}:NAME`; beside_{} has no service"),
        (":Root", UnknownReference, "a target is `module:Name`"),
    ],
)
def test_what_is_not_there_is_named(program, target, error, message):
    with pytest.raises(error, match=message.replace("{}", program)):
        load_target(target.replace("{}", program))

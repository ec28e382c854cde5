"""`module:Name` and `file.py:Name`, and the messages for everything else."""

import sys
import uuid

import pytest

from trilith.errors import InvalidConfig, UnknownReference
from trilith.service import load_target, spec_of
from trilith.service.target import Target, TargetKind, parse_target

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
    (tmp_path / f"pictures_{key}.py").write_text("from PIL import Image")
    monkeypatch.setitem(sys.modules, "PIL", None)  # as if it were not installed
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
        ("nowhere_{}.py:Root", UnknownReference, r"there is no file .*nowhere_{}.py; .* has app_{}.py, beside"),
        ("broken_{}:Root", InvalidConfig, "importing broken_{} raised ZeroDivisionError"),
        ("broken_{}.py:Root", InvalidConfig, "raised ZeroDivisionError"),
        ("lacks_{}:Root", InvalidConfig, "No module named 'no_such_package_at_all'; is it installed"),
        (
            "json.decoder.Root",
            UnknownReference,
            r"no module 'json.decoder.Root' \(did you mean `json.decoder:Root`\?\)",
        ),
        ("json.Root:Root", UnknownReference, r"there is no module 'json.Root'; looked in"),
        ("pictures_{}:Root", InvalidConfig, r"PIL halted.*: pip install 'trilith\[image\]'$"),
        ("pictures_{}.py:Root", InvalidConfig, r"PIL halted.*: pip install 'trilith\[image\]'$"),
        ("lacks_{}.py:Root", InvalidConfig, "No module named 'no_such_package_at_all'; is it installed"),
        ("beside_{}", UnknownReference, "say which service, `beside_{}:NAME`; beside_{} has no service"),
        (":Root", InvalidConfig, "a target is a folder of models, `module:Name` or"),
        (".", InvalidConfig, "is a folder of models, not a service"),
    ],
)
def test_what_is_not_there_is_named(program, target, error, message):
    with pytest.raises(error, match=message.replace("{}", program)):
        load_target(target.replace("{}", program))


@pytest.fixture
def place(tmp_path):
    for folder in ("models", "package", ".hidden", "__pycache__"):
        (tmp_path / folder).mkdir()
    for file in ("app.py", "app.yaml", "notes.txt", "package/__init__.py", "package/inner.py"):
        (tmp_path / file).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "where", "name"),
    [
        ("models", TargetKind.FOLDER, "models", ""),
        ("models/", TargetKind.FOLDER, "models/", ""),
        ("package/", TargetKind.FOLDER, "package/", ""),
        (".", TargetKind.FOLDER, ".", ""),
        ("app.py", TargetKind.FILE, "app.py", ""),
        ("app.py:Ocr", TargetKind.FILE, "app.py", "Ocr"),
        ("package/inner.py:Ocr", TargetKind.FILE, "package/inner.py", "Ocr"),
        ("app", TargetKind.MODULE, "app", ""),
        ("app:Ocr", TargetKind.MODULE, "app", "Ocr"),
        ("package", TargetKind.MODULE, "package", ""),
        ("package.inner:Ocr", TargetKind.MODULE, "package.inner", "Ocr"),
        ("somewhere_else:Ocr", TargetKind.MODULE, "somewhere_else", "Ocr"),
        ("json", TargetKind.MODULE, "json", ""),
    ],
)
def test_kinds_of_targets(place, text, kind, where, name):
    assert parse_target(text, folder=place) == Target(kind=kind, place=where, name=name)
    # An absolute path is the same without a folder.
    if kind is not TargetKind.MODULE:
        assert parse_target(f"{place}/{text}").kind is kind


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("modles/", UnknownReference, r"^modles/: there is no folder .*modles; .* has models/, package/, app.py$"),
        (
            "modles",
            UnknownReference,
            r"^modles: there is no folder and no module of that name; .* has models/, pack",
        ),
        ("deep/down/models", UnknownReference, r"there is no folder .*deep/down/models; .* has models/, package/"),
        ("ap.py:Ocr", UnknownReference, r"^ap.py:Ocr: there is no file .*ap.py; .* has models/, package/, app.py$"),
        ("models/x.py", UnknownReference, r"there is no file .*x.py; .*models has no folder and no Python file"),
        ("app.yaml", InvalidConfig, r"^app.yaml: application files are not supported yet; serve `module:Name`$"),
        ("other.yml", InvalidConfig, r"application files are not supported yet"),
        ("notes.txt", InvalidConfig, r"notes.txt is neither a folder nor a Python file"),
        ("package/inner:Ocr", UnknownReference, r"there is no folder .*package/inner; .*package has inner.py"),
        ("app.Ocr", UnknownReference, r"^app.Ocr: app is a module and no package \(did you mean `app:Ocr`\?\)$"),
        ("package.inner.f", UnknownReference, r"did you mean `package.inner:f`"),
        ("app.py:", InvalidConfig, r"a target is a folder of models, .* got 'app.py:'"),
        ("http://127.0.0.1:8000", InvalidConfig, r"a target is a folder of models"),
        ("", InvalidConfig, r"a target is a folder of models"),
    ],
)
def test_what_is_no_target(place, text, error, message):
    with pytest.raises(error, match=message):
        parse_target(text, folder=place)


def test_a_long_folder_is_cut(tmp_path):
    for number in range(30):
        (tmp_path / f"m{number:02}.py").touch()
    with pytest.raises(UnknownReference, match=r"m19.py, \.\.\.$"):
        parse_target("nothing/", folder=tmp_path)


def test_a_file_without_a_name(program):
    assert load_target(f"app_{program}.py").__name__ == "Root"

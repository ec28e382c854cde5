"""The line of Trilith in the `requirements.txt` that `trilith init` writes."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

import trilith
from trilith.cli.init import TEMPLATES, init
from trilith.cli.init_requirement import direct_url, installed_source, located


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_project_asks_for_the_trilith_that_made_it(template, tmp_path):
    init(template, tmp_path / "a project")
    lines = (tmp_path / "a project" / "requirements.txt").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if not line.startswith("#")]
    (ours,) = (found for found in wanted if found.name == "trilith")
    assert ours.url == installed_source(Path(trilith.__file__).resolve().parent)
    assert {found.name for found in wanted} >= {"trilith", "pytest"}


def test_a_clone_is_named_by_its_folder(tmp_path):
    package = tmp_path / "my clone" / "src" / "trilith"
    package.mkdir(parents=True)
    (tmp_path / "my clone" / "pyproject.toml").touch()
    source = installed_source(package)
    assert Requirement(f"trilith[ocr] @ {source}").url == (tmp_path / "my clone").as_uri()


@pytest.mark.parametrize(
    ("told", "url"),
    [
        ('{"url": "file:///w/trilith-1-py3-none-any.whl", "archive_info": {}}', "file:///w/trilith-1-py3-none-any.whl"),
        (
            '{"url": "https://h.example/t.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "git+https://h.example/t.git@abc",
        ),
    ],
)
def test_what_pip_was_given(told, url):
    assert direct_url(told) == url


def test_of_an_index_the_name_is_enough():
    assert located("trilith[ocr]\npytest\n", "") == "trilith[ocr]\npytest\n"
    assert located("trilith[ocr]\ntrilith-other\n", "file:///t").splitlines()[1:] == [
        "trilith[ocr] @ file:///t",
        "trilith-other",
    ]

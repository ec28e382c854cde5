"""Every code block of the README and of docs/ does what the page says."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from page_blocks import Use, read_blocks
from page_runner import PageRunner

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
MOST_NOT_RUN = 14

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@pytest.mark.peer
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_page_does_what_it_says(page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    blocks = read_blocks(page.read_text(encoding="utf-8"), page.name)
    for tool in ("bash", "curl"):
        if shutil.which(tool) is None and not os.environ.get("CI"):
            pytest.skip(f"{tool} is not installed")
    worker = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0)
    PageRunner(page.name, tmp_path, tmp_path_factory.mktemp("run"), worker).run(blocks)


def test_few_blocks_are_shown_without_being_run():
    shown = [
        f"{page.name}: {block.detail}"
        for page in PAGES
        for block in read_blocks(page.read_text(encoding="utf-8"), page.name)
        if block.use is Use.NOT_RUN
    ]
    assert len(shown) <= MOST_NOT_RUN, shown


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    for link in _LINK.findall(text):
        if link.startswith(("https://", "http://")):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place) if place else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            anchors = [_anchor(heading) for heading in _HEADING.findall(target.read_text(encoding="utf-8"))]
            assert anchor in anchors, f"{page.name} links to {link}; there is {anchors}"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in _LINK.findall(index)}
    missing = [name for name, page in zip(NAMES, PAGES, strict=True) if page.resolve() not in linked]
    assert set(missing) <= {"README.md", "docs/README.md"}


def _anchor(heading: str) -> str:
    """A heading's anchor as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")

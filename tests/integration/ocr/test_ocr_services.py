"""The services of the example: by hand in this process, and served."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from accuracy import character_error_rate
from lines import row_texts
from pages import STYLES, invoice
from PIL import Image

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "ocr"
SHORT = replace(STYLES["clean"], rows=5)


def test_the_services_work_without_a_server(pipeline):
    from app import Ocr

    page = invoice(SHORT)
    image = Image.fromarray(cv2.cvtColor(page.image, cv2.COLOR_BGR2RGB))
    lines = asyncio.run(Ocr().read(image))
    assert character_error_rate(row_texts(lines), page.lines) <= 0.01
    alone = pipeline.read(page.image)
    assert [line.text for line in lines] == [line.text for line in alone], "the same functions, the same answer"
    assert [line.box for line in lines] == [line.box for line in alone]


def test_the_served_example_reads_pages_and_refuses_what_is_none():
    from demo import lines_of, read_page
    from served import post, serve

    page = invoice(SHORT)
    empty = np.full_like(page.image, 255)
    with serve() as server:
        port = server.port
        assert character_error_rate(row_texts(lines_of(read_page(port, page.png()))), page.lines) <= 0.01
        assert lines_of(read_page(port, cv2.imencode(".png", empty)[1].tobytes())) == []
        refused = post(port, "/read", b"no image", {"content-type": "image/png"})
        assert refused.status == 400
        assert b"image" in refused.body


def demonstrate(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE / "demo.py")],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=55,
        check=False,
    )


@pytest.mark.full
def test_the_demonstration_shows_the_page_and_its_time(tmp_path: Path):
    done = demonstrate(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Invoice INV-2026/" in done.stdout
    for floor in ("1 runtime", "2 service", "3 orchestration"):
        assert floor in done.stdout
    assert (tmp_path / "out" / "ocr-demo.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "ocr-page.png").read_bytes().startswith(b"\x89PNG")  # what its README sends


def test_a_demonstration_that_cannot_work_says_so_in_one_sentence(tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = demonstrate(tmp_path, TRILITH_CACHE=str(tmp_path / "file"))
    assert done.returncode == 1
    assert done.stderr.startswith("The demonstration failed: ")
    assert "Traceback" not in done.stderr

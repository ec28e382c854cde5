"""Serves real OCR models, reads a page, and shows what it read, how well, and where the time went.

    python examples/ocr/demo.py

Everything happens on this machine. The models (31 MB) and a font come from the package index that pip is set up
for, the first time only. Exit status 0 when the page was read, 1 with one clear sentence when it was not.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

import cv2
from accuracy import character_error_rate
from draw import draw
from lines import Line, row_texts
from model_files import model_path
from pages import STYLES, Page, invoice
from rich.console import Console
from served import Answer, ServerFailed, post, serve

from trilith.errors import TrilithError
from trilith.measure import TimelineSample, break_down, breakdown_table
from trilith.runtime.sources.console import ConsoleProgress

STYLE: Final = replace(STYLES["noisy"], angle=2.0)
PICTURE: Final = Path("out") / "ocr-demo.png"
PAGE: Final = Path("out") / "ocr-page.png"


def main() -> int:
    """The whole demonstration; the exit status."""
    console = Console(highlight=False)
    try:
        with ConsoleProgress() as progress:
            for model in ("ocr-det", "ocr-rec"):
                model_path(model, progress)
            page = invoice(STYLE, progress)
        console.print("Starting [bold]trilith serve examples/ocr/app.py:Ocr[/] ...")
        started = time.perf_counter()
        with serve() as server:
            console.print(f"Ready after {time.perf_counter() - started:.1f} s on http://127.0.0.1:{server.port}")
            read_page(server.port, page.png())  # the first page pays for memory that later ones reuse
            answer = read_page(server.port, page.png())
        show(console, page, lines_of(answer), answer.elapsed_s)
        show_time(console, answer)
        PAGE.write_bytes(page.png())
        console.print(f"The page: [bold]{PAGE}[/]; with what was read: [bold]{PICTURE}[/]")
    except (TrilithError, ServerFailed, OSError) as error:
        sys.stderr.write(f"The demonstration failed: {error}\n")
        return 1
    return 0


def read_page(port: int, png: bytes) -> Answer:
    """The server's answer to one page.

    Raises:
        ServerFailed: it is not 200, or comes without the timeline that was asked for.
    """
    answer = post(port, "/read", png, {"content-type": "image/png", "trilith-timeline": "1"})
    if answer.status != 200:
        raise ServerFailed(f"the server answered {answer.status}: {answer.body.decode('utf-8', 'replace'):.500}")
    if not answer.timeline:
        raise ServerFailed("the server answered without the timeline that it was asked for")
    return answer


def lines_of(answer: Answer) -> list[Line]:
    """The lines in an answer's JSON."""
    return [Line(**line) for line in json.loads(answer.body)]


def show(console: Console, page: Page, lines: list[Line], elapsed_s: float) -> None:
    """Prints what was read and how well, and writes the picture."""
    texts = row_texts(lines)
    for text in texts:
        console.print(f"  {text}", markup=False)
    errors = character_error_rate(texts, page.lines)
    console.print(
        f"{len(lines)} pieces of text in {elapsed_s * 1e3:,.0f} ms; character error rate "
        f"[bold]{errors:.2%}[/] of {sum(map(len, page.lines)):,} characters"
    )
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(PICTURE), draw(page.image, lines))


def show_time(console: Console, answer: Answer) -> None:
    """Prints where the request's time went.

    Raises:
        ServerFailed: its timeline cannot be read.
    """
    breakdown = break_down([TimelineSample(answer.timeline, answer.elapsed_s)])
    if breakdown is None:
        raise ServerFailed(f"the timeline of the page cannot be read: {answer.timeline!r:.200}")
    console.print(breakdown_table(breakdown, "Where the time of this page went"))


if __name__ == "__main__":
    sys.exit(main())

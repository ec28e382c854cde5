"""Real models on pages whose text is known. The bounds are about twice what was measured (docs: OCR example)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from accuracy import character_error_rate
from lines import row_texts
from pages import STYLES, invoice

BOUNDS = {
    "clean": 0.002,
    "small": 0.004,
    "noisy": 0.004,
    "turned 3": 0.004,
    "turned -7": 0.006,
    "serif": 0.004,
    "mono": 0.006,
    "grotesque": 0.006,
}
IN_CI = ("clean", "turned -7")


@pytest.mark.parametrize(
    "style", [name if name in IN_CI else pytest.param(name, marks=pytest.mark.full) for name in STYLES]
)
def test_the_character_error_rate_is_low(pipeline, style: str):
    page = invoice(STYLES[style])
    lines = pipeline.read(page.image)
    assert character_error_rate(row_texts(lines), page.lines) <= BOUNDS[style]
    assert min(line.score for line in lines) > 0.3


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 6))
def test_other_pages_are_read_as_well(pipeline, seed: int):
    page = invoice(replace(STYLES["noisy"], seed=seed, angle=seed - 3.0))
    assert character_error_rate(row_texts(pipeline.read(page.image)), page.lines) <= 0.006


def test_an_empty_page_has_no_lines(pipeline):
    page = invoice(replace(STYLES["clean"], rows=1))
    page.image[:] = 255
    assert pipeline.read(page.image) == []


def test_what_is_no_image_is_refused(pipeline):
    for content in (b"", b"not an image"):
        with pytest.raises(ValueError, match="no image"):
            pipeline.read_file(content)

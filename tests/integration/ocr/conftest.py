from __future__ import annotations

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
for folder in ("ocr", "ocr_baseline"):
    if str(EXAMPLES / folder) not in sys.path:
        sys.path.insert(0, str(EXAMPLES / folder))


@pytest.fixture(scope="session")
def pipeline():
    from pipeline import OcrPipeline

    return OcrPipeline.open()

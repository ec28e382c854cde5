"""BentoML: the whole page in one synchronous API, as many threads as the machine has cores, one session a model.

Threads and not workers: connections that stay open are dealt to BentoML's worker processes once and for all, and with a
few clients one process often gets them all. The models run without the GIL.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import bentoml
from page_reader import PageReader


@bentoml.service(threads=os.cpu_count() or 1)
class Ocr:
    def __init__(self) -> None:
        self._reader = PageReader()

    @bentoml.api
    def read(self, page: Path, /) -> list[dict[str, Any]]:
        return self._reader.read(page.read_bytes())

from __future__ import annotations

import sys
from pathlib import Path

EXAMPLE = str(Path(__file__).resolve().parents[3] / "examples" / "ocr")
if EXAMPLE not in sys.path:
    sys.path.insert(0, EXAMPLE)

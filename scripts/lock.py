"""Writes requirements.lock and requirements-dev.lock: exact versions, hashes, no index and no host.

Rule: a lock that would name a URL, a path or a host is not written.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = re.compile(r"https?://|file:|^\S+ @ ", re.MULTILINE)
RUNTIME = ["--extra", "ocr", "--extra", "build"]
LOCKS = {
    "requirements.lock": RUNTIME,
    "requirements-dev.lock": [*RUNTIME, "--extra", "dev", "--constraint", "requirements.lock"],
}


def compile_lock(options: list[str]) -> str:
    """The text of a lock for all supported platforms and Python versions."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml"),
        *("--universal", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"),
        *("--no-emit-index-url", "--no-emit-find-links", "--python-version", "3.11"),
        *options,
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def main() -> None:
    """Compiles each lock and refuses one that names where it came from."""
    for name, options in LOCKS.items():
        text = compile_lock(options)
        named = FORBIDDEN.search(text)
        if named:
            raise SystemExit(f"{name}: not written, it would name {named.group()!r}")
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()

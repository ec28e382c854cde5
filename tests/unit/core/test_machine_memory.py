"""The memory of machines and containers."""

from pathlib import Path

import pytest

from trilith.core.machine_memory import UNKNOWN_BYTES, memory_bytes

MEMINFO = "MemFree: 1 kB\nMemTotal:       1048576 kB\n"


@pytest.mark.parametrize(
    ("meminfo", "limit_of_2", "limit_of_1", "expected"),
    [
        (MEMINFO, None, None, 1 << 30),
        (MEMINFO, "max\n", None, 1 << 30),
        (MEMINFO, "1000000\n", None, 1_000_000),
        (MEMINFO, None, "9223372036854771712\n", 1 << 30),
        (MEMINFO, None, "2000000\n", 2_000_000),
        (None, "1000000\n", None, 1_000_000),
        ("nothing\n", None, None, UNKNOWN_BYTES),
        (None, None, None, UNKNOWN_BYTES),
    ],
)
def test_the_least_counts(
    tmp_path: Path, meminfo: str | None, limit_of_2: str | None, limit_of_1: str | None, expected: int
) -> None:
    files = {
        "meminfo": meminfo,
        "fs/cgroup/memory.max": limit_of_2,
        "fs/cgroup/memory/memory.limit_in_bytes": limit_of_1,
    }
    for name, text in files.items():
        if text is not None:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    assert memory_bytes(tmp_path, tmp_path) == expected

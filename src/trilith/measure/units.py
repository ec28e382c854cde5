"""Durations and sizes as text for a person."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them, with three significant digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            value = seconds / scale
            return f"{value:.0f}{unit}" if value >= 100 else f"{value:.3g}{unit}"
    return f"{seconds * 1e6:.2g}µs" if seconds else "0"


def size(size_bytes: int) -> str:
    """Bytes in the unit that suits them."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f}{unit}" if value >= 100 else f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:,.1f}GB"

"""Names of what a reduced output leaves as. See `backends/reduced.py`."""

from __future__ import annotations

from typing import Final

INDEX: Final = ".index"
"""Ends the name of the tensor with the places of the largest values."""

VALUE: Final = ".value"
"""Ends the name of the tensor with the largest values."""

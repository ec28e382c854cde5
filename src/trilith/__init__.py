"""Trilith: one Python system for serving models, in three floors that each work alone."""

from __future__ import annotations

__version__ = "0.1.0"

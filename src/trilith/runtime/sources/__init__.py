"""Model sources: where a model's file comes from, and the one way to get it here."""

from __future__ import annotations

from trilith.runtime.sources.cache import cache_root
from trilith.runtime.sources.progress import FetchEvent, Phase, Progress
from trilith.runtime.sources.resolution import resolve

__all__ = ["FetchEvent", "Phase", "Progress", "cache_root", "resolve"]

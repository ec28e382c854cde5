"""Text to frozen values, with the path of the wrong key in each error."""

from __future__ import annotations

from trilith.config.loader import convert, dump_yaml, line_of, load_yaml, parse_yaml

__all__ = ["convert", "dump_yaml", "line_of", "load_yaml", "parse_yaml"]

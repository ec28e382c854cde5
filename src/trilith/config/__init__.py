"""Text to frozen values, with the path of the wrong key in each error."""

from __future__ import annotations

from trilith.config.loader import convert, dump_yaml, line_of, load_yaml, parse_yaml
from trilith.config.settings import (
    Settings,
    merged,
    path_steps,
    read_settings,
    setting_path,
    settings_by_path,
    settings_of,
)
from trilith.config.yaml_patch import patched

__all__ = [
    "Settings",
    "convert",
    "dump_yaml",
    "line_of",
    "load_yaml",
    "merged",
    "parse_yaml",
    "patched",
    "path_steps",
    "read_settings",
    "setting_path",
    "settings_by_path",
    "settings_of",
]

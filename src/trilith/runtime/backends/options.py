"""What a model's configuration says to its backend: `parameters` and `session`.

Rule 1: a key that the backend does not ask for is for clients and models to read. One that looks misspelt is named in
    the log, and by `trilith models check`.
Rule 2: a message names the model and the key, and says what is expected.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from trilith.core.plain_numbers import plain_number
from trilith.errors import InvalidConfig
from trilith.runtime.backends.parameters import unknown_parameters
from trilith.runtime.backends.port import ModelFile
from trilith.runtime.ranges import THREADS, Range
from trilith.runtime.spec import SessionConfig

_MOST_DIGITS = 20
_log: Final = logging.getLogger("trilith.runtime")
_SWITCHES: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Options:
    """The `parameters` of one model. Ask for each key that the backend knows, then call `finish`."""

    def __init__(self, file: ModelFile) -> None:
        self._file = file

    def text(self, key: str, default: str = "") -> str:
        """The value as it stands."""
        return self._file.spec.parameters.get(key, default)

    def switch(self, key: str, default: bool = False) -> bool:
        """A truth value: `true`, `1` or `yes` and their opposites, in any case."""
        text = self.text(key, str(default))
        found = _SWITCHES.get(text.strip().lower())
        if found is None:
            raise self.wrong(key, "must be true or false", text)
        return found

    def number(self, key: str, default: float, *, least: float = 0.0, most: float = math.inf) -> float:
        """A number from `least` to `most`."""
        text = self.text(key, str(default))
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not least <= found <= most or math.isinf(found):
            limits = (
                f"from {plain_number(least)} to {plain_number(most)}"
                if most < math.inf
                else f">= {plain_number(least)}"
            )
            raise self.wrong(key, f"must be a number {limits}", text)
        return found

    def count(self, key: str, default: int, *, allowed: Range = THREADS) -> int:
        """A whole number; of threads, unless another range is said."""
        text = self.text(key, str(default))
        found = int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
        if found is None or not allowed.least <= found <= allowed.most:
            raise self.wrong(key, f"must be an integer from {allowed.least} to {allowed.most}", text)
        return found

    def names(self, key: str) -> list[str]:
        """Names with commas or blanks between them."""
        return self.text(key).replace(",", " ").split()

    def finish(self) -> None:
        """Says in the log which keys are unknown and look like one that the backend knows."""
        spec = self._file.spec
        for key, meant in unknown_parameters(spec.backend, spec.parameters):
            if meant:
                _log.warning(
                    "model '%s': parameters.%s: means nothing to the %s backend, which knows '%s'",
                    self._file.model,
                    key,
                    spec.backend,
                    meant,
                )

    def wrong(self, key: str, expected: str, text: str) -> InvalidConfig:
        """The error for a key whose value is not as expected."""
        return InvalidConfig(f"model '{self._file.model}': parameters.{key}: {expected}; got {text!r:.200}")


def refuse_session(file: ModelFile, honoured: Sequence[str]) -> None:
    """Sees that `session` says nothing that would be ignored.

    Raises:
        InvalidConfig: a key outside `honoured` differs from its default.
    """
    default = SessionConfig()
    for field in fields(SessionConfig):
        if field.name not in honoured and getattr(file.spec.session, field.name) != getattr(default, field.name):
            raise InvalidConfig(
                f"model '{file.model}': session.{field.name}: means nothing to the {file.spec.backend} backend, which "
                f"honours {', '.join(honoured) or 'none of them'}; remove it"
            )

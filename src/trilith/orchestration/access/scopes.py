"""What a key opens, as a few words. Pure.

    *                everything
    Ocr              every method of the service Ocr
    Ocr.read         one method; `*` stands for anything: Ocr.read_*
    Ocr./ui          what is mounted at /ui, with all that lies below it
    model:ocr-*      inference with models of such names, and what is said of them; not to load or unload them
    /v2/*            whatever has such a path, over HTTP or gRPC (/inference.GRPCInferenceService/*)

Rule: a path that something behind us may read otherwise than we do (`.` and `..` segments, encoded ones too, doubled
slashes) is opened by `*` alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from trilith.errors import InvalidConfig

_SCOPE: Final = re.compile(r"\*|/[\x21-\x7e]*|model:[\x21-\x7e]+|[A-Za-z_*][A-Za-z0-9_.*-]*(?:\./[\x21-\x7e]*)?")
_LONGEST: Final = 300
_AMBIGUOUS: Final = re.compile(r"//|\\|%2f|%5c|/(?:\.|%2e){1,2}(?:/|;|$)", re.IGNORECASE)
_MODEL: Final = "model:"


class Glob:
    """A text in which `*` stands for any characters. Matching takes time linear in the text, whatever the pattern."""

    __slots__ = ("_first", "_last", "_middle", "_whole")

    def __init__(self, pattern: str) -> None:
        first, *rest = pattern.split("*")
        self._first = first
        self._whole = not rest
        self._last = rest.pop() if rest else ""
        self._middle = [part for part in rest if part]

    def matches(self, text: str) -> bool:
        """Whether it is one of those."""
        if self._whole:
            return text == self._first
        at, end = len(self._first), len(text) - len(self._last)
        if end < at or not text.startswith(self._first) or not text.endswith(self._last):
            return False
        for part in self._middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


class Scopes:
    """The scopes of one key.

    Args:
        words: as at the head of this file.
    """

    __slots__ = ("_methods", "_models", "_paths", "everything")

    def __init__(self, words: Iterable[str]) -> None:
        self.everything = False
        self._paths: list[Glob] = []
        self._models: list[Glob] = []
        self._methods: list[Glob] = []
        for word in words:
            if word == "*":
                self.everything = True
            elif word.startswith("/"):
                self._paths.append(Glob(word))
            elif word.startswith(_MODEL):
                self._models.append(Glob(word.removeprefix(_MODEL)))
            elif "/" in word:
                self._methods.append(Glob(word))
            else:
                self._methods += [Glob(word), Glob(f"{word}.*")]

    @property
    def any_model(self) -> bool:
        """Whether it opens some model, if not by path."""
        return self.everything or bool(self._models)

    def path(self, path: str) -> bool:
        """Whether what has that path is open."""
        if self.everything:
            return True
        return any(glob.matches(path) for glob in self._paths) and _AMBIGUOUS.search(path) is None

    def model(self, name: str) -> bool:
        """Whether that model is."""
        return self.everything or any(glob.matches(name) for glob in self._models)

    def method(self, name: str) -> bool:
        """Whether that method is, `Ocr.read`."""
        return self.everything or any(glob.matches(name) for glob in self._methods)


def checked_scope(word: str, where: str) -> str:
    """A scope that means something.

    Raises:
        InvalidConfig: it does not; the message begins with `where`.
    """
    if len(word) > _LONGEST or not _SCOPE.fullmatch(word):
        raise InvalidConfig(
            f"{where}: a scope is '*', a method ('Ocr.read', 'Ocr.*', 'Ocr'), a mount ('Ocr./ui'), a model"
            f" ('model:ocr-*') or a path ('/v2/*'), got {word!r:.100}"
        )
    return word

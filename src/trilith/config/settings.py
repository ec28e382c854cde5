"""Settings that stand before what services and models declare: those of a file, and single ones of a command line.

    services:
      Recognizer: {replicas: 2, read: {max_batch: 8}}
    models:
      ocr-rec: {instances: 2, session: {intra_op_threads: 1}}

    Recognizer.replicas=2  Recognizer.read.max_batch=8  models.ocr-rec.instances=2

Rule 1: a path names a service first, or `models` and a model; a name with dots, blanks or `=` stands in quotes
    (`models."a.b".pure`), where `""` is a quote. `services.NAME` is the long form, for a service that is called
    `models` or `services`.
Rule 2: which settings there are, and what they may be, is for services and models to say. Nothing here knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from trilith.config.loader import load_yaml, parse_yaml
from trilith.errors import InvalidConfig

_STEP: Final = re.compile(r'"((?:[^"]|"")+)"|([^".=\s]+)')
_PATH: Final = re.compile(r'(?:"[^"]*"|[^"=])*')  # of a word: up to the first `=` that stands in no quotes
_SECTIONS: Final = ("services", "models")


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is set, by service and by model.

    Attributes:
        services: of each service its options, and of its methods theirs.
        models: of each model keys of its `model.yaml`.
    """

    services: dict[str, dict[str, Any]] = {}
    models: dict[str, dict[str, Any]] = {}

    def over(self, below: Settings) -> Settings:
        """These, and what they say nothing of as `below` has it."""
        return Settings(services=merged(below.services, self.services), models=merged(below.models, self.models))


def read_settings(file: Path | None, words: Sequence[str]) -> Settings:
    """The settings of a file, and before them those of `PATH=VALUE` words.

    Raises:
        UnknownReference: the file cannot be read.
        InvalidConfig: a key of the file or a word is wrong, two words set the same, or a number is not finite.
    """
    below = Settings() if file is None else load_yaml(file, Settings)
    found: dict[str, Any] = {}
    for word in words:
        path, value = _taken_apart(word)
        if path in found:
            raise InvalidConfig(f"--set {path}: is said twice; leave one out")
        found[path] = parse_yaml(value, source=f"--set {path}")
    settings = settings_of(found).over(below)
    for section in _SECTIONS:
        _refuse_infinite(getattr(settings, section), section)
    return settings


def _refuse_infinite(value: object, path: str) -> None:
    """No setting has use for such a number, and JSON, by which they go to the processes, has none."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidConfig(f"{path}: must be a finite number, got {value}")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_infinite(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_infinite(inner, f"{path}[{index}]")


def _taken_apart(word: str) -> tuple[str, str]:
    found = _PATH.match(word)
    path = found[0] if found else ""
    if word[len(path) : len(path) + 1] != "=":
        path = word.partition("=")[0]  # a quote is not closed, which is for the path to say
    if not path or path == word:
        raise InvalidConfig(f"--set {word}: expected PATH=VALUE, as Detector.replicas=2")
    return path, word[len(path) + 1 :]


def settings_of(values: Mapping[str, object]) -> Settings:
    """The settings that single paths say.

    Raises:
        InvalidConfig: a path is none, or two exclude each other.
    """
    sections: dict[str, Any] = {section: {} for section in _SECTIONS}
    said: dict[tuple[str, ...], str] = {}  # the paths in the words that they came in
    for path, value in values.items():
        section, *steps = whole = path_steps(path)
        if whole in said:
            raise InvalidConfig(f"{path}: is said twice, the other time as {said[whole]}; leave one out")
        said[whole] = path
        place = sections[section]
        for count, step in enumerate(steps[:-1], start=2):
            if whole[:count] in said:
                raise InvalidConfig(f"{path}: another setting gives {step!r} a value, so nothing can stand in it")
            place = place.setdefault(step, {})
        if steps[-1] in place:
            raise InvalidConfig(f"{path}: another setting stands in it; leave one out")
        place[steps[-1]] = value
    return Settings(**sections)


def settings_by_path(settings: Settings) -> dict[str, Any]:
    """The other way round: each value by its path, and a mapping in parts where its keys can be steps of one."""
    found: dict[str, Any] = {}
    places: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((section, name), values) for section in _SECTIONS for name, values in getattr(settings, section).items()
    ]
    while places:
        place, values = places.pop()
        for key, value in values.items():
            steps = (*place, key)
            if isinstance(value, dict) and value and all(isinstance(each, str) and each for each in value):
                places.append((steps, value))
            else:
                found[setting_path(steps)] = value
    return found


def path_steps(path: str) -> tuple[str, ...]:
    """`services` or `models`, the name, and the keys below it.

    Raises:
        InvalidConfig: it is no path of a setting.
    """
    steps, at = [], 0
    while (found := _STEP.match(path, at)) is not None:
        steps.append(found[1].replace('""', '"') if found[1] else found[2])
        at = found.end()
        if path[at : at + 1] != ".":
            break
        at += 1
    if at != len(path) or not steps or path.endswith("."):
        raise InvalidConfig(f'{path}: expected names with dots between them, as Detector.replicas or models."a.b".pure')
    if steps[0] not in _SECTIONS:
        steps.insert(0, "services")
    if len(steps) < 3:
        wanted = "models.NAME.instances" if steps[0] == "models" else "NAME.replicas"
        raise InvalidConfig(f"{path}: says whose setting it is and not which; expected a path like {wanted}")
    return tuple(steps)


def setting_path(steps: Iterable[str]) -> str:
    """The path that `path_steps` takes apart, in its short form where there is one. No step is empty."""
    section, name, *rest = steps
    first = () if section == "services" and name not in _SECTIONS else (section,)
    return ".".join(_written(step) for step in (*first, name, *rest))


def _written(step: str) -> str:
    found = _STEP.fullmatch(step)
    return step if found and found[2] else '"' + step.replace('"', '""') + '"'


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The one mapping with what the other says put over it, mapping by mapping."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        result[key] = merged(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return result

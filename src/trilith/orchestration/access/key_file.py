"""The file with a server's keys: YAML that holds digests and no key.

    public: [/docs, /openapi.json]              # scopes that need no key; may be left out
    keys:
      - name: scanner
        sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        scopes: [Ocr.read, "model:ocr-*"]
        expires: 2027-01-31                     # the rest may be left out
        requests_per_s: 20
        burst: 40
        concurrency: 8
        max_body_mb: 4

Rule: what is wrong is said with its line, and never with what stands there: it may be a key that was put there by
mistake.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from trilith.config import convert, dump_yaml, line_of, parse_yaml
from trilith.errors import InvalidConfig
from trilith.orchestration.access.keys import KeyLimits, KeyRing, KeyRule
from trilith.orchestration.access.scopes import checked_scope

_PREFIX: Final = "trilith_"
_KEY_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES: Final = 16 << 20
_MIB: Final = 1 << 20

_Scopes = Annotated[list[str], msgspec.Meta(min_length=1)]


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    scopes: _Scopes
    sha256: str = ""
    certificate: str = ""
    expires: Any = None
    requests_per_s: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None
    burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    max_body_mb: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keys: list[_Entry] = []
    public: list[str] = []


def new_key(name: str, *, scopes: list[str], expires: date | None = None, **limits: float | None) -> tuple[str, str]:
    """A new key, and the text of its entry in the file.

    Args:
        name: whose it is.
        scopes: what it opens.
        expires: its first day on which it does not hold.
        limits: requests_per_s, burst, concurrency, max_body_mb; None for those that it has not.

    Raises:
        InvalidConfig: the name, a scope or a limit is none.
    """
    key = _PREFIX + secrets.token_urlsafe(_KEY_BYTES)
    values: dict[str, Any] = {"name": name, "sha256": hashlib.sha256(key.encode()).hexdigest(), "scopes": scopes}
    if expires is not None:
        values["expires"] = expires.isoformat()
    values |= {limit: value for limit, value in limits.items() if value is not None}
    _rule(convert(values, _Entry, source=f"the key {name}"), _Places("", f"the key {name}"), "it")
    lines = dump_yaml(values).splitlines()
    return key, "".join(f"{'  - ' if at == 0 else '    '}{line}\n" for at, line in enumerate(lines))


def read_key_file(path: Path) -> KeyRing:
    """The keys of a file.

    Raises:
        InvalidConfig: it cannot be read, or something in it is wrong; the message has the line.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        text = raw.decode()
    except OSError as error:
        raise InvalidConfig(f"{path}: the keys cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise InvalidConfig(f"{path}: must be UTF-8 text") from None
    if len(raw) > _MOST_BYTES:
        raise InvalidConfig(f"{path}: a file of keys has at most {_MOST_BYTES >> 20} MiB")
    return read_key_text(text, source=str(path))


def read_key_text(text: str, *, source: str) -> KeyRing:
    """The keys of the text of a file.

    Raises:
        InvalidConfig: see `read_key_file`.
    """
    value = parse_yaml(text, source=source)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise InvalidConfig(f"{source}: expected 'keys:' and a list of them, got {type(value).__name__}")
    places = _Places(text, source)
    found = _converted(value, places)
    seen: dict[tuple[str, str], str] = {}
    rules: list[KeyRule] = []
    for at, entry in enumerate(found.keys):
        path = f"keys[{at}]"
        rule = _rule(entry, places, path)
        for what, mine in (("name", rule.name), ("sha256", rule.sha256), ("certificate", rule.certificate)):
            before = seen.setdefault((what, mine), path)
            if mine and before != path:
                raise InvalidConfig(f"{places.at(f'{path}.{what}')}: {before} has it too; give each key its own")
        rules.append(rule)
    for at, scope in enumerate(found.public):
        checked_scope(scope, places.at(f"public[{at}]"))
    return KeyRing(rules=tuple(rules), public=tuple(found.public))


class _Places:
    """Where something stands in a file, for messages."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self.source = source

    def at(self, path: str) -> str:
        """`keys.yaml: line 4: keys[1].sha256`."""
        line = line_of(self._text, path)
        return f"{self.source}: {path}" if line is None else f"{self.source}: line {line}: {path}"


def _converted(value: Any, places: _Places) -> _File:
    try:
        return convert(value, _File, source=places.source)
    except InvalidConfig as error:
        path, colon, problem = error.message.removeprefix(f"{places.source}: ").partition(": ")
        if not colon:
            raise
        raise InvalidConfig(f"{places.at(path)}: {problem}") from None


def _rule(entry: _Entry, places: _Places, path: str) -> KeyRule:
    if not _NAME.fullmatch(entry.name):
        raise InvalidConfig(f"{places.at(f'{path}.name')}: expected 1 to 64 letters, digits, '_', '-', '.' or '@'")
    if bool(entry.sha256) == bool(entry.certificate):
        raise InvalidConfig(
            f"{places.at(path)}: expected either sha256 (of a key) or certificate (a name in a client's), got"
            f" {'both' if entry.sha256 else 'neither'}"
        )
    digest = entry.sha256.lower()
    if digest and not _DIGEST.fullmatch(digest):
        raise InvalidConfig(
            f"{places.at(f'{path}.sha256')}: expected the 64 hexadecimal digits that `trilith keys new` writes; a key"
            " itself does not belong here"
        )
    if entry.burst is not None and entry.requests_per_s is None:
        raise InvalidConfig(f"{places.at(f'{path}.burst')}: it is one of requests_per_s, which is missing")
    for at, scope in enumerate(entry.scopes):
        checked_scope(scope, places.at(f"{path}.scopes[{at}]"))
    return KeyRule(
        name=entry.name,
        sha256=digest,
        certificate=entry.certificate,
        scopes=tuple(entry.scopes),
        expires_at=_instant(entry.expires, places, path),
        limits=KeyLimits(
            requests_per_s=entry.requests_per_s,
            burst=entry.burst or max(1, math.ceil(entry.requests_per_s or 1)),
            concurrency=entry.concurrency,
            max_body_bytes=None if entry.max_body_mb is None else int(entry.max_body_mb * _MIB),
        ),
    )


def _instant(value: Any, places: _Places, path: str) -> float | None:
    """Seconds since 1970; a day means its beginning, and a time without a zone is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = False
    if value is None:
        return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    if not isinstance(value, datetime):
        raise InvalidConfig(
            f"{places.at(f'{path}.expires')}: expected a day (2027-01-31) or an instant (2027-01-31T12:00:00Z)"
        )
    return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()

"""Whether a request may pass: key, scope and limits, in this order. Pure: instants are arguments.

Rule 1: closed by default. Before the first ring of keys nothing passes but probes; what no scope names is not open.
Rule 2: whatever is refused costs its own caller only: no key's limits are touched by a request that does not have it.
Rule 3: a key is found by its digest, which is then compared in constant time. No message holds any part of a key.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable, Collection
from typing import Final

from trilith.core.identity import Identity
from trilith.errors import Forbidden, NoReadyReplica, PayloadTooLarge, RateLimited, TrilithError, Unauthenticated
from trilith.orchestration.access.asked import Asked, Need
from trilith.orchestration.access.keys import KeyRing, KeyRule
from trilith.orchestration.access.limits import KeyUse
from trilith.orchestration.access.scopes import Scopes

_LONGEST_KEY_BYTES: Final = 512
_BUSY_AGAIN_S: Final = 1.0
NOBODY: Final = ""
"""In metrics: who has shown no key that is known."""


class Grant:
    """A request that may pass. `release` says that it is over.

    Attributes:
        identity: who asks; None when nobody needs to be known.
        max_body_bytes: the longest body that it may have; None for no bound of its own.
    """

    __slots__ = ("_scopes", "_use", "identity", "max_body_bytes")

    def __init__(
        self, identity: Identity | None = None, use: KeyUse | None = None, scopes: tuple[Scopes, ...] = ()
    ) -> None:
        """`scopes`: they decide about the model that the message names; none: any will do."""
        self.identity = identity
        self.max_body_bytes = None if use is None else use.limits.max_body_bytes
        self._scopes = scopes
        self._use = use
        if use is not None:
            use.in_flight += 1

    def release(self) -> None:
        """It is answered, or its client is gone. A second call does nothing."""
        use, self._use = self._use, None
        if use is not None:
            use.in_flight -= 1

    def allows_model(self, name: str) -> bool:
        """Whether it may ask that model (""; all of them), which its message names."""
        return not self._scopes or any(scopes.model(name) for scopes in self._scopes)


class _Known:
    """A key with what is worked out once."""

    __slots__ = ("digest", "identity", "rule", "scopes", "use")

    def __init__(self, rule: KeyRule, use: KeyUse) -> None:
        self.rule = rule
        self.digest = bytes.fromhex(rule.sha256)
        self.scopes = Scopes(rule.scopes)
        self.use = use
        self.identity = Identity(name=rule.name, kind="certificate" if rule.certificate else "key")


class AccessDesk:
    """Knows the keys. `count` is told the name of the key and what became of each request: `ok` or an error's code."""

    def __init__(self, count: Callable[[str, str], None]) -> None:
        self._count = count
        self._uses: dict[str, KeyUse] = {}
        self._by_digest: dict[bytes, _Known] = {}
        self._by_certificate: dict[str, _Known] = {}
        self._public = Scopes(())
        self._has_ring = False

    def use(self, ring: KeyRing, now: float) -> None:
        """From now on these keys hold. One of the same name as before goes on where that one was."""
        uses: dict[str, KeyUse] = {}
        known: list[_Known] = []
        for rule in ring.rules:
            use = uses[rule.name] = self._uses.get(rule.name) or KeyUse(rule.limits, now=now)
            use.change(rule.limits, now=now)
            known.append(_Known(rule, use))
        self._uses = uses
        self._by_digest = {each.digest: each for each in known if each.rule.sha256}
        self._by_certificate = {each.rule.certificate: each for each in known if each.rule.certificate}
        self._public = Scopes(ring.public)
        self._has_ring = True

    def in_flight(self) -> dict[str, int]:
        """How many requests of each key are under way, by its name."""
        return {name: use.in_flight for name, use in self._uses.items()}

    def admit(
        self,
        asked: Asked,
        key: bytes | None,
        certificates: Collection[str],
        *,
        body_bytes: int | None,
        now: float,
        wall: float,
        asks: bool = False,
    ) -> Grant | None:
        """Lets a request pass.

        Args:
            asked: what it asks for.
            key: that it has shown; None for none.
            certificates: the names in its TLS certificate.
            body_bytes: the length of its body, when that is known.
            now: the monotonic instant in seconds.
            wall: seconds since 1970.
            asks: somebody else is asked about who has no key.

        Returns:
            None for a request that somebody else has to be asked about.

        Raises:
            Unauthenticated: it has no key, or none that is known or still holds.
            Forbidden: its key does not open what it asks for.
            PayloadTooLarge, RateLimited: its key may not ask for so much.
            NoReadyReplica: the keys are not known yet.
        """
        if asked.need is Need.NOTHING:
            return Grant()
        if not self._has_ring:
            raise NoReadyReplica("the keys of this server are not read yet; try again in a moment")
        name = NOBODY
        try:
            known = self._found(key, certificates, wall)
            if known is None:
                if asks and not _opens(asked, self._public):
                    return None
                return self._without_key(asked)
            name = known.rule.name
            self._check_scope(asked, known)
            self._check_limits(known, body_bytes, now)
        except TrilithError as error:
            self._count(name, error.code)
            raise
        self._count(name, "ok")
        return Grant(known.identity, known.use, _of_message(asked, known.scopes, self._public))

    def identity_of(self, key: bytes | None, certificates: Collection[str]) -> Identity | None:
        """Whose key was shown, though it may open nothing; None for one that is not known, or none."""
        if key is not None:
            known = self._by_digest.get(hashlib.sha256(key).digest()) if len(key) <= _LONGEST_KEY_BYTES else None
        else:
            known = next((self._by_certificate[name] for name in certificates if name in self._by_certificate), None)
        return None if known is None else known.identity

    def _found(self, key: bytes | None, certificates: Collection[str], wall: float) -> _Known | None:
        """The key that was shown; None when none was."""
        known: _Known | None = None
        if key is not None:
            digest = hashlib.sha256(key).digest() if len(key) <= _LONGEST_KEY_BYTES else b""
            known = self._by_digest.get(digest)
            if known is None or not hmac.compare_digest(known.digest, digest):
                raise Unauthenticated("the key is unknown: it is not among this server's keys, or was taken out")
        else:
            known = next((self._by_certificate[name] for name in certificates if name in self._by_certificate), None)
        if known is not None and known.rule.expires_at is not None and wall >= known.rule.expires_at:
            raise Unauthenticated(f"the key {known.rule.name!r} has expired")
        return known

    def _without_key(self, asked: Asked) -> Grant:
        if not _opens(asked, self._public):
            raise Unauthenticated(
                "this needs a key: send the header 'authorization: Bearer KEY', or 'x-api-key: KEY'; who runs the"
                " server makes one with `trilith keys new`"
            )
        self._count(NOBODY, "ok")
        return Grant(scopes=_of_message(asked, self._public))

    def _check_scope(self, asked: Asked, known: _Known) -> None:
        if asked.need is Need.KEY or _opens(asked, known.scopes) or _opens(asked, self._public):
            return
        raise Forbidden(f"the key {known.rule.name!r} does not open {asked.method or asked.path[:200]}")

    def _check_limits(self, known: _Known, body_bytes: int | None, now: float) -> None:
        name, use = known.rule.name, known.use
        most_bytes = use.limits.max_body_bytes
        if most_bytes is not None and body_bytes is not None and body_bytes > most_bytes:
            raise PayloadTooLarge(f"the body has {body_bytes} bytes, and the key {name!r} allows {most_bytes}")
        if use.full:
            raise RateLimited(
                f"{use.in_flight} requests of the key {name!r} are under way, which is its limit",
                retry_after_s=_BUSY_AGAIN_S,
            )
        wait_s = use.refused_for(now)
        if wait_s > 0:
            raise RateLimited(
                f"the key {name!r} allows {use.limits.requests_per_s:g} requests a second",
                retry_after_s=wait_s if wait_s < 1 else math.ceil(wait_s),  # headers have whole seconds
            )


def _opens(asked: Asked, scopes: Scopes) -> bool:
    return (
        scopes.path(asked.path)
        or (bool(asked.method) and scopes.method(asked.method))
        or (asked.model is not None and scopes.model(asked.model))
        or (asked.model_later and scopes.any_model)
    )


def _of_message(asked: Asked, *scopes: Scopes) -> tuple[Scopes, ...]:
    """Those that decide when the message has told which model it is for; none when it does not matter."""
    if not asked.model_later or any(each.path(asked.path) for each in scopes):
        return ()
    return scopes

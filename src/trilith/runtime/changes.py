"""What must be loaded and unloaded when a repository or a model has changed. Pure.

Rule 1: a listing is what was attempted, not what succeeded: a model that could not be loaded is tried again when its
    files change, and not before.
Rule 2: what serves is loaded again only when something that it was loaded from has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trilith.core.load_options import ControlMode
from trilith.errors import UnknownReference
from trilith.runtime.naming import keys_of, name_of
from trilith.runtime.spec import InstanceConfig, ModelSpec, VersionPolicy

ALL: Final = "*"
"""Stands for every model in a list of names."""

Listing = Mapping[str, str]
"""The models of all repositories: a fingerprint of what each one's folder holds, by key; see `naming`."""

Stamp = tuple[tuple[str, int, int, int], ...]
"""Files by path below a folder: size in bytes, time of change in ns, inode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Names to load (or load again) and to unload, in order."""

    load: tuple[str, ...] = ()
    unload: tuple[str, ...] = ()


def at_start(
    now: Collection[str], mode: ControlMode, wanted: Sequence[str] | None, *, on_demand: bool = False
) -> tuple[str, ...]:
    """The models to load when the runtime starts.

    Args:
        now: keys of the models in the repositories.
        mode: who decides.
        wanted: names that were asked for, `*` for all; None for what the mode does by itself.
        on_demand: whether requests decide.

    Raises:
        UnknownReference: one that was asked for is not there.
    """
    if wanted is None:
        return () if mode is ControlMode.EXPLICIT or on_demand else tuple(now)
    if ALL in wanted:
        return tuple(now)
    meant = {name: [name] if name in now else keys_of(name, now) for name in wanted}
    for name, keys in meant.items():
        if not keys:
            raise UnknownReference(f"model '{name}' is in none of the repositories; they hold {_shown(now)}")
    return tuple(key for keys in meant.values() for key in keys)


def decide(before: Listing, now: Listing, mode: ControlMode) -> Changes:
    """What follows from a repository that looked like `before` when it was last acted upon, and looks like `now`."""
    if mode is not ControlMode.POLL:
        return Changes()
    return Changes(
        load=tuple(sorted(name for name, fingerprint in now.items() if before.get(name) != fingerprint)),
        unload=tuple(sorted(before.keys() - now.keys())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a model was, or is to be, loaded from.

    Attributes:
        spec: its configuration.
        shared: its files beside those of the versions and the configuration.
        versions: the files of each version.
    """

    spec: ModelSpec
    shared: Stamp = ()
    versions: Mapping[str, Stamp] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """How one standing becomes another.

    Attributes:
        load: versions to load, whether they serve now or not.
        keep: versions that go on as they are.
        resize: whether those must change how many instances they have.
    """

    load: tuple[str, ...]
    keep: tuple[str, ...] = ()
    resize: bool = False


def plan_reload(before: Standing | None, now: Standing, serving: Collection[str]) -> Reload:
    """The least that must be done. Where nothing has changed everything is loaded: somebody asked for it.

    Args:
        before: what the model was loaded from, or None.
        now: what it is to be loaded from.
        serving: its versions that serve requests.
    """
    everything = Reload(load=tuple(now.versions))
    if before is None or _essence(before) != _essence(now):
        return everything
    same = (version for version, stamp in now.versions.items() if before.versions.get(version) == stamp)
    keep = tuple(version for version in same if version in serving)
    load = tuple(version for version in now.versions if version not in keep)
    resize = before.spec.instances != now.spec.instances
    if not load and not resize and set(keep) == set(serving) and before.spec == now.spec:
        return everything
    return Reload(load=load, keep=keep, resize=resize)


def _essence(standing: Standing) -> tuple[ModelSpec, Stamp]:
    """What every version depends on: all but which versions there are and how many instances each has."""
    instances = InstanceConfig(share=standing.spec.instances.share)
    return replace(standing.spec, instances=instances, versions=VersionPolicy()), standing.shared


def _shown(keys: Collection[str]) -> str:
    listed = sorted({name_of(key) for key in keys})
    return (", ".join(listed[:20]) + (f" and {len(listed) - 20} more" if len(listed) > 20 else "")) or "none"

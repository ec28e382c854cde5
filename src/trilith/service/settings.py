"""Settings of a server that stand before what the decorators of its services say.

Rule 1: what can be set is how many, how long and how much. What a service is (its name, routes, `.proto`, middleware)
    is code.
Rule 2: a setting that finds nothing to set is an error that lists what there is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trilith.errors import InvalidConfig
from trilith.service.spec import MethodSpec, ServiceSpec

SERVICE_SETTINGS: Final = ("replicas", "cpu", "threads", "concurrency", "timeout_s", "max_waiting")
"""Options of a service that can be set."""

BATCH_SETTINGS: Final = {"max_batch": "max_size", "max_wait_ms": "max_wait_ms"}
"""Options of a batched method that can be set, and their names in `trilith.Batch`."""

METHOD_SETTINGS: Final = (*BATCH_SETTINGS, "timeout_s")
"""Options of a method that can be set."""


def apply_settings(
    graph: Sequence[ServiceSpec], services: Mapping[str, Mapping[str, Any]], models: Iterable[str] = ()
) -> None:
    """Puts settings into the declarations of an application, for this process.

    Args:
        graph: its services.
        services: settings by service; of a method a mapping below its name.
        models: names of models that are set elsewhere: they must be among those that the services use.

    Raises:
        InvalidConfig: there is no such service, method, option or model, or a value is wrong.
    """
    known = {spec.name: spec for spec in graph}
    for name, given in services.items():
        if name not in known:
            raise InvalidConfig(f"there is no service {name!r} to set; {_listed('the services are', name, known)}")
        _apply(known[name], given)
    placed = {each.reference: each.placement for spec in graph for each in spec.models.values()}
    for name in models:
        if name not in placed:
            what = _listed("the models are", name, placed) if placed else "the services use none"
            raise InvalidConfig(f"models.{name}: no service uses a model of that name; {what}")
        if placed[name] == "replica":
            raise InvalidConfig(
                f"models.{name}: is loaded in each replica (placement='replica'); only models of the node can be set"
            )


def _apply(spec: ServiceSpec, given: Mapping[str, Any]) -> None:
    changes: dict[str, Any] = {}
    for key, value in given.items():
        if spec.is_function and key in BATCH_SETTINGS:
            _apply_to_method(next(iter(spec.methods.values())), {key: value})
        elif isinstance(value, Mapping) and key in spec.methods:
            _apply_to_method(spec.methods[key], value)
        elif key in SERVICE_SETTINGS:
            changes[key] = value
        elif key in spec.methods:
            raise InvalidConfig(
                f"{spec.name}.{key}: is a method, of which can be set {', '.join(METHOD_SETTINGS)}: "
                f"{spec.name}.{key}.{METHOD_SETTINGS[0]}"
            )
        else:
            there = (*SERVICE_SETTINGS, *spec.methods)
            raise InvalidConfig(f"{spec.name}.{key}: cannot be set; {_listed(f'of {spec.name} can be', key, there)}")
    spec.options = _changed(spec.name, spec.options, changes)


def _apply_to_method(method: MethodSpec, given: Mapping[str, Any]) -> None:
    for key in given:
        if key not in METHOD_SETTINGS:
            raise InvalidConfig(
                f"{method.where}.{key}: cannot be set; {_listed(f'of {method.where} can be', key, METHOD_SETTINGS)}"
            )
    of_batch = {BATCH_SETTINGS[key]: value for key, value in given.items() if key in BATCH_SETTINGS}
    options = method.options
    if of_batch:
        if options.batch is None:
            raise InvalidConfig(
                f"{method.where}: takes one call at a time, so it has no {' and no '.join(set(given) - {'timeout_s'})};"
                " declare it with @trilith.api(batch=...)"
            )
        options = replace(options, batch=_changed(method.where, options.batch, of_batch))
    method.options = _changed(method.where, options, {key: given[key] for key in given if key == "timeout_s"})


def _changed(where: str, options: Any, changes: Mapping[str, Any]) -> Any:
    try:
        return replace(options, **changes) if changes else options
    except InvalidConfig as error:
        raise InvalidConfig(f"{where}: {error.message}") from None


def _listed(what: str, meant: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(meant, names, n=1)
    return f"{what} {', '.join(names)}" + (f"; did you mean {close[0]!r}?" if close else "")

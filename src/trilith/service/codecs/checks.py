"""Whether a value is of a type that is made of JSON's own (`is_plain`).

Rule 1: a value that does not come from a JSON body (what a method returns, what another service sends) is looked at as
strictly as one that does: "1" is no number, 1.5 no int, true no number.
Rule 2: what Python takes for the same passes: an int for a float, a tuple for a list, subclasses, numpy's scalars.
Rule 3: a look at a list of scalars is one pass in C over the types of its items: 15 ns an item, a third of what writing
a number as JSON costs. Only a value that is refused is looked at twice.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Iterable
from typing import Any, Final

from trilith.service.codecs import wording
from trilith.service.signature import MethodSignature, shown_type, union_members

Check = Callable[[Any], bool]

_EXACT: Final[dict[Any, frozenset[type]]] = {
    int: frozenset({int}),
    float: frozenset({float, int}),
    str: frozenset({str}),
    bool: frozenset({bool}),
    None: frozenset({type(None)}),
    type(None): frozenset({type(None)}),
}
_JSON_NAMES: Final[dict[Any, str]] = {list: "array", dict: "object", None: "null", type(None): "null"}
_SHOWN_CHARACTERS: Final = 60


def _exact(annotation: Any) -> frozenset[type] | None:
    """The types of which every value fits a scalar, or a union of scalars; None when it is neither."""
    members = union_members(annotation)
    if members is None:
        return _EXACT.get(annotation)
    found = [_exact(member) for member in members]
    return frozenset().union(*(one for one in found if one is not None)) if all(found) else None


def checker(annotation: Any) -> Check:
    """A check of values of a plain type. Made once for each type."""
    exact = _exact(annotation)
    if exact is not None:
        alike = _scalar_check(exact)
        return lambda value: type(value) in exact or alike(value)
    members = union_members(annotation)
    if members is not None:
        checks = [checker(member) for member in members]
        return lambda value: any(check(value) for check in checks)
    arguments = typing.get_args(annotation)
    if annotation is list or typing.get_origin(annotation) is list:
        return _list_check(arguments[0]) if arguments else lambda value: isinstance(value, list | tuple)
    values = _items_check(arguments[1]) if arguments else None
    names = _items_check(str)

    def check_dict(value: Any) -> bool:
        return isinstance(value, dict) and (values is None or (names(value) and values(value.values())))

    return check_dict


def _list_check(annotation: Any) -> Check:
    check, exact = checker(annotation), _exact(annotation)
    if exact is None:
        return lambda value: isinstance(value, list | tuple) and all(map(check, value))
    return lambda value: (
        isinstance(value, (list, tuple)) and (exact.issuperset(map(type, value)) or all(map(check, value)))
    )


def _items_check(annotation: Any) -> Callable[[Iterable[Any]], bool]:
    check, exact = checker(annotation), _exact(annotation)
    if exact is None:
        return lambda values: all(map(check, values))
    return lambda values: exact.issuperset(map(type, values)) or all(map(check, values))


def _scalar_check(exact: frozenset[type]) -> Check:
    """Whether a value is of a subclass of one of the types, or a scalar of numpy that stands for one."""
    kinds = tuple(exact)

    def check(value: Any) -> bool:
        if isinstance(value, kinds):
            return not isinstance(value, bool)  # to Python a bool is an int
        numpy = sys.modules.get("numpy")
        return numpy is not None and isinstance(value, numpy.generic) and type(value.item()) in exact

    return check


def wrong_parts(signature: MethodSignature, body: Any) -> list[str]:
    """What is wrong in a JSON body of plain parameters: all names, and one value for each."""
    if not isinstance(body, dict):
        return [wording.unfit("object")]
    required = [parameter.name for parameter in signature.parameters if parameter.required]
    found = [wording.missing(name) for name in required if name not in body]
    known = {parameter.name for parameter in signature.parameters}
    found += [wording.unknown(name) for name in body if name not in known]
    for parameter in signature.parameters:
        annotation = parameter.value.annotation
        if parameter.name in body and not checker(annotation)(body[parameter.name]):
            place, annotation, _ = _find(annotation, body[parameter.name], f"$.{parameter.name}")
            found.append(wording.unfit(_json_name(annotation), place))
    return found


def _json_name(annotation: Any) -> str:
    members = union_members(annotation)
    if members is not None:
        return " | ".join(_json_name(member) for member in members)
    bare = typing.get_origin(annotation) or annotation
    return _JSON_NAMES.get(bare, shown_type(annotation))


def wrong_part(annotation: Any, value: Any) -> str:
    """What is wrong in a value that was refused: `expected int, got 'four' - at $[0]`."""
    place, annotation, value = _find(annotation, value, "$")
    got = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    if len(got) > _SHOWN_CHARACTERS:
        got = f"{got[:_SHOWN_CHARACTERS]}..."
    return f"expected {shown_type(annotation)}, got {got}" + (f" - at `{place}`" if place != "$" else "")


def _find(annotation: Any, value: Any, place: str) -> tuple[str, Any, Any]:
    """The innermost value that is wrong, with its place and type."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is list and isinstance(value, list | tuple):
        check = checker(arguments[0])
        wrong = next(index for index, item in enumerate(value) if not check(item))
        return _find(arguments[0], value[wrong], f"{place}[{wrong}]")
    if typing.get_origin(annotation) is dict and isinstance(value, dict):
        check = checker(arguments[1])
        for name, item in value.items():
            if not isinstance(name, str):
                return place, annotation, value
            if not check(item):
                return _find(arguments[1], item, f"{place}.{name}")
    return place, annotation, value


def unwritten_part(value: Any) -> str:
    """Which part of a value is none of JSON's types, with its path; "" when there is none."""
    waiting, seen = [("$", value)], set[int]()
    while waiting:
        path, part = waiting.pop()
        if isinstance(part, dict | list | tuple):
            if id(part) in seen:
                continue
            seen.add(id(part))
            named = part.items() if isinstance(part, dict) else enumerate(part)
            inner = [(f"{path}.{name}" if isinstance(part, dict) else f"{path}[{name}]", one) for name, one in named]
            waiting += reversed(inner)
        elif not (part is None or isinstance(part, str | int | float) or getattr(part, "shape", None) == ()):
            kind = type(part).__name__
            way = "; `.tolist()` makes it one" if hasattr(part, "tolist") else ""
            return f"{kind} at `{path}` is no JSON type{way}"
    return ""

"""A stub file: a module with the types of what a server offers, and `connect`, whose client type-checkers understand.

Rule 1: the same document gives the same text, byte for byte, wherever it came from: `--check` compares.
Rule 2: what stands in it is what `trilith.client` takes and gives; at run time it is that client.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from trilith.service.client.operations import Operation, Parameter
from trilith.service.client.stub_types import StubTypes, documentation, used_names

if TYPE_CHECKING:
    from trilith.service.client.raw import Methods

_HEAD: Final = '''\
# fmt: off
# ruff: noqa
"""A typed client of {service}. Made by `trilith client`: make it again when the service changes, do not edit it."""

from __future__ import annotations

{imports}
'''
_SYNC: Final = '''\
    def with_timeout(self, timeout_s: float) -> Self:
        """The same client with another time limit (seconds) for each call."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
'''
_ASYNC: Final = '''\
    def with_timeout(self, timeout_s: float) -> Self:
        """The same client with another time limit (seconds) for each call."""
        ...

    async def close(self) -> None:
        """Closes the connections."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
'''
_CONNECT: Final = '''\
def {function}(
    url: str, *, timeout_s: float | None = None, headers: Mapping[str, str] | None = None
) -> {kind}:
    """A client of the server at `url`{how}; see `trilith.client`."""
    return cast({kind!r}, trilith.client(url, {more}timeout_s=timeout_s, headers=headers))
'''
_WIDTH: Final = 100


def stub_source(methods: Methods) -> str:
    """The text of a stub file for what `methods` offers."""
    operations = sorted(methods.operations, key=lambda each: each.method)
    service = re.sub(r"\W+", "", methods.name) or "Service"
    if keyword.iskeyword(service) or not service[0].isalpha():
        service = f"Service{service}"
    kinds = (service, f"Async{service}")
    definitions: dict[str, Any] = methods.document.get("components", {}).get("schemas", {})
    types = StubTypes(definitions, used_names(operations), set(kinds))
    classes = [
        _class(kinds[0], methods.document, operations, types, asynchronous=False),
        _class(kinds[1], methods.document, operations, types, asynchronous=True),
    ]
    connects = [
        _CONNECT.format(function="connect", kind=kinds[0], how="", more=""),
        _CONNECT.format(
            function="connect_async", kind=kinds[1], how=", whose methods are awaited", more="asynchronous=True, "
        ),
    ]
    body = "\n\n".join(text.rstrip() + "\n" for text in (*types.definitions, *classes, *connects))
    return _HEAD.format(service=methods.name, imports=_imports(body)) + f"\n{body}"


def _class(
    name: str, document: dict[str, Any], operations: Sequence[Operation], types: StubTypes, *, asynchronous: bool
) -> str:
    lines = [f"class {name}(Protocol):"]
    about = str(document.get("info", {}).get("description", "")) or f"What {name.removeprefix('Async')} offers."
    lines += [f"    {documentation(about, '    ')}", ""]
    for operation in operations:
        lines += [*_method(operation, types, asynchronous=asynchronous), ""]
    return "\n".join(lines) + "\n" + (_ASYNC if asynchronous else _SYNC)


def _method(operation: Operation, types: StubTypes, *, asynchronous: bool) -> list[str]:
    word = "async def" if asynchronous and not operation.streams else "def"
    result = types.returned(operation.result, operation.result_schema)
    if operation.streams:
        result = f"{'AsyncIterator' if asynchronous else 'Iterator'}[{result}]"
    parameters = ["self"]
    named = False
    if operation.taken is not None:
        item = types.given(operation.taken)
        wide = f"Iterable[{item}] | AsyncIterable[{item}]" if asynchronous else f"Iterable[{item}]"
        named = operation.taken.keyword_only
        parameters += [*(("*",) if named else ()), f"{operation.taken.name}: {wide}"]
    for parameter in operation.parameters:
        if parameter.keyword_only and not named:
            parameters.append("*")
            named = True
        parameters.append(_parameter(parameter, types))
    if operation.root:
        parameters.append("/")
    line = f"    {word} {operation.method}({', '.join(parameters)}) -> {result}:"
    lines = [line]
    if len(line) > _WIDTH:
        lines = [f"    {word} {operation.method}(", *(f"        {each}," for each in parameters), f"    ) -> {result}:"]
    if operation.documentation and operation.documentation != operation.method:
        return [*lines, f"        {documentation(operation.documentation, '        ')}", "        ..."]
    return [*lines[:-1], f"{lines[-1]} ..."]


def _parameter(parameter: Parameter, types: StubTypes) -> str:
    text = f"{parameter.name}: {types.given(parameter)}"
    if parameter.required:
        return text
    default = parameter.default
    simple = default is None or isinstance(default, bool | int | float | str)
    plain = simple and (default is not None or "None" in text or "Any" in text)
    return f"{text} = {default!r}" if plain else f"{text} = ..."


def _imports(body: str) -> str:
    """The imports that the text needs, in their order."""
    used = set(re.findall(r"[A-Za-z_]+", body))
    lines = ["import builtins"] if re.search(r"\bbuiltins\.", body) else []
    if "pathlib" in used:
        lines.append("import pathlib")
    abstract = {"AsyncIterable", "AsyncIterator", "Iterable", "Iterator", "Mapping", "Sequence"}
    lines.append(f"from collections.abc import {', '.join(sorted({'Mapping'} | (used & abstract)))}")
    lines.append("from types import TracebackType")
    words = {"Any", "Literal", "NotRequired", "TypeAlias", "TypedDict"} & used
    heavy = []
    if "np" in used:
        heavy.append("    import numpy as np")
    if "NDArray" in used:
        heavy.append("    from numpy.typing import NDArray")
    if re.search(r"\bImage\.Image\b", body):
        heavy.append("    from PIL import Image")
    wanted = {"Protocol", "Self", "cast", *words, *({"TYPE_CHECKING"} if heavy else ())}
    lines.append(f"from typing import {', '.join(sorted(wanted, key=lambda word: (not word.isupper(), word)))}")
    lines += ["", "import trilith"]
    if heavy:
        lines += ["", "if TYPE_CHECKING:", *heavy]
    return "\n".join(lines)

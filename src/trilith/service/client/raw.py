"""Calls whose answers stay as they came: for who writes them to files, or shows what there is.

with remote_methods("http://127.0.0.1:8000") as methods:      of a server
with hosted_methods(load_target("app.py:Ocr")) as methods:    of a service in this process
    answer = methods.call(methods.find("read"), {"image": Path("page.png")})
"""

from __future__ import annotations

import contextlib
import difflib
import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from trilith.errors import NotFound
from trilith.service.client.address import server_address
from trilith.service.client.connect import DOCUMENT, operations_of
from trilith.service.client.encoding import Body, decode_answer, decode_error, encode_arguments, encode_item
from trilith.service.client.heads import checked_headers
from trilith.service.client.meant import with_key
from trilith.service.client.operations import Operation
from trilith.service.client.patience import Patience, checked_timeout
from trilith.service.client.streams import ItemReader

if TYPE_CHECKING:
    from trilith.service.client.retries import Answered


class Transport(Protocol):
    """What carries calls: `SyncTransport` to a server, `HostedTransport` into this process."""

    def get(self, path: str) -> Answered:
        """The answer to a GET."""
        ...

    def post(self, path: str, body: Body, patience: Patience) -> Answered:
        """The answer to a call."""
        ...

    def open(
        self, path: str, body: Body, items: Iterable[bytes] | None, patience: Patience
    ) -> tuple[str, Generator[bytes, None, None]]:
        """The beginning of an answer of a call with items: its content type, and what comes."""
        ...

    def close(self) -> None:
        """Lets go of what it holds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAnswer:
    """What a method answered.

    Attributes:
        operation: the method.
        content_type: of the body.
        body: as it came.
    """

    operation: Operation
    content_type: str
    body: bytes

    def value(self) -> Any:
        """The result, as `trilith.client` gives it."""
        return decode_answer(self.operation, self.content_type, self.body)


class Methods:
    """What a server, or a service in this process, offers. Use it as a context manager.

    Attributes:
        name: of the service.
        operations: its methods.
        document: its OpenAPI document.
    """

    def __init__(self, where: str, transport: Transport, timeout_s: float | None) -> None:
        self._where = where
        self._transport = transport
        self._timeout_s = checked_timeout(timeout_s)
        answered = transport.get(DOCUMENT)
        self.operations: Sequence[Operation] = operations_of(where, answered)
        self.document: dict[str, Any] = json.loads(answered[2])
        self.name = str(self.document.get("info", {}).get("title", ""))

    def find(self, name: str) -> Operation:
        """The method of that name or path; "" for the only one.

        Raises:
            NotFound: there is none; the message lists what there is.
        """
        if not name and len(self.operations) == 1:
            return self.operations[0]
        for operation in self.operations:
            if name == operation.method or (name and f"/{name.lstrip('/')}" == operation.path):
                return operation
        names = [operation.method for operation in self.operations]
        near = difflib.get_close_matches(name, names, n=1)
        guess = f"; did you mean {near[0]}?" if near else ""
        missing = f"{self.name} at {self._where} has no method {name!r}" if name else f"say which method of {self.name}"
        raise NotFound(f"{missing}{guess}; it has {', '.join(names)}")

    def call(self, operation: Operation, arguments: dict[str, Any], *, accept: str = "") -> RawAnswer:
        """Calls a method.

        Args:
            operation: the method.
            arguments: by name, as `trilith.client` takes them.
            accept: content type of the answer; "" for the method's own.

        Raises:
            InvalidConfig: HTTP does not allow that `accept`.
            TrilithError: whatever the call failed with.
        """
        body = encode_arguments(operation, arguments)
        if accept:
            checked_headers({"accept": accept})
            body = replace(body, accept=f"{accept}, */*;q=0.1")
        if body.items is not None:
            content_type, chunks = self._open(operation, body)
            return RawAnswer(operation=operation, content_type=content_type, body=b"".join(chunks))
        status, content_type, content, refused = self._transport.post(operation.path, body, self._patience(operation))
        if status >= 400:
            raise decode_error(status, content, refused.retry_after)
        return RawAnswer(operation=operation, content_type=content_type, body=content)

    def stream(self, operation: Operation, arguments: dict[str, Any]) -> Iterator[Any]:
        """The items of a method that streams, as they come; leaving the iterator ends the call.

        Raises:
            TrilithError: whatever the call failed with, before or midway.
        """
        content_type, chunks = self._open(operation, encode_arguments(operation, arguments))
        reader = ItemReader(operation, content_type)
        with contextlib.closing(chunks):
            for chunk in chunks:
                yield from reader.push(chunk)
                if reader.failure is not None:
                    raise reader.failure

    def _open(self, operation: Operation, body: Body) -> tuple[str, Generator[bytes, None, None]]:
        items = None if body.items is None else (encode_item(operation, item) for item in body.items)
        return self._transport.open(operation.path, body, items, self._patience(operation))

    def _patience(self, operation: Operation) -> Patience:
        return Patience(asked_s=self._timeout_s, method_s=operation.timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()


def remote_methods(
    url: str, *, headers: Mapping[str, str] | None = None, timeout_s: float | None = None, tls_ca: Path | None = None
) -> Methods:
    """The methods of the server at `url`.

    Raises:
        NoReadyReplica: nothing answers there.
        Unsupported: it is not a service of Trilith.
        InvalidConfig: the URL, a header, the time limit or the file is none.
    """
    from trilith.service.client.options import ConnectionOptions
    from trilith.service.client.transport import SyncTransport

    base = server_address(url)
    transport = SyncTransport(base, ConnectionOptions(headers=with_key(headers or {}), tls_ca=tls_ca))
    return _methods(base, transport, timeout_s)


def hosted_methods(
    service: object,
    *,
    model_roots: Sequence[Path] = (),
    headers: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> Methods:
    """The methods of a service that runs in this process: a decorated class or function.

    Raises:
        InvalidConfig: it is no service, or cannot be served.
    """
    from trilith.service.client.hosted import HostedTransport

    transport = HostedTransport(service, model_roots=model_roots, headers=headers or {})
    return _methods("this process", transport, timeout_s)


def _methods(where: str, transport: Transport, timeout_s: float | None) -> Methods:
    try:
        return Methods(where, transport, timeout_s)
    except BaseException:
        transport.close()
        raise

"""What a client and a streaming method agree on over HTTP: the form of items out, and of items in."""

from __future__ import annotations

from trilith.errors import NotAcceptable, UnsupportedMediaType
from trilith.orchestration.deployments import MethodRoute
from trilith.wire.accept import best


def chosen_format(route: MethodRoute, accept: str) -> str:
    """The content type in which the items are sent.

    Raises:
        NotAcceptable: the client takes none of those that are offered.
    """
    found = best(accept, route.offers)
    if found is None:
        raise NotAcceptable(
            f"{route.service}.{route.method} streams {', '.join(route.offers)}; got accept: {accept[:200]}"
        )
    return found


def check_body(route: MethodRoute, content_type: str) -> None:
    """Looks at what the items of a request's body are.

    Raises:
        UnsupportedMediaType: the method reads no such items.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in route.takes:
        raise UnsupportedMediaType(
            f"{route.service}.{route.method} takes a stream of items as the body: {', '.join(route.takes)};"
            f" got {kind or 'no Content-Type'}"
        )

"""The page at `/docs`: one HTML file, nothing fetched from elsewhere. It reads `/openapi.json` of the same server."""

from __future__ import annotations

import functools
import html
import importlib.resources


@functools.cache
def _page() -> str:
    return importlib.resources.files("trilith.service").joinpath("docs.html").read_text("utf-8")


def docs_html(title: str, *, openapi_url: str = "openapi.json") -> bytes:
    """The page.

    Args:
        title: the application's name.
        openapi_url: where the document is, relative to the page.
    """
    page = _page().replace("{{TITLE}}", html.escape(title)).replace("{{OPENAPI_URL}}", html.escape(openapi_url))
    return page.encode()

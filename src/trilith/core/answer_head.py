"""What a method says of its answer beside the value: status, headers, cookies.

Rule: what cannot be sent is refused where it is set, so that the traceback shows who did it, and no value can end a
line of the head (`header_fields`).
"""

from __future__ import annotations

from typing import Final

from trilith.core.cookies import SameSite, cookie_text
from trilith.core.header_fields import TOKEN, VALUE, is_servers_own
from trilith.errors import ServiceError

_MOST_FIELDS: Final = 64
_MOST_BYTES: Final = 16 << 10
_SET_COOKIE: Final = "set-cookie"


class AnswerHead:
    """The head of one answer.

    Attributes:
        status: the HTTP status.
    """

    __slots__ = ("_cookies", "_headers", "_size_bytes", "status")

    def __init__(self) -> None:
        self.status = 200
        self._headers: dict[str, str] = {}
        self._cookies: dict[tuple[str, str, str | None], str] = {}
        self._size_bytes = 0

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The headers and cookies as (name, value), in the order in which they were set first."""
        return (*self._headers.items(), *((_SET_COOKIE, text) for text in self._cookies.values()))

    def set_header(self, name: str, value: str) -> None:
        """Sets a header; an earlier value of its name is replaced.

        Raises:
            ServiceError: it cannot be sent, or is one that the server writes.
        """
        lower = _name(name)
        if not isinstance(value, str):
            raise ServiceError(f"the value of the header {lower!r} must be text, got {type(value).__name__}")
        stripped = value.strip(" \t")
        try:
            octets = stripped.encode("latin-1")
        except UnicodeEncodeError:
            raise ServiceError(
                f"the value of the header {lower!r} has characters that no header has, {value!r:.100}: encode it, with"
                " urllib.parse.quote for example"
            ) from None
        if not VALUE.fullmatch(octets):
            raise ServiceError(f"the value of the header {lower!r} must not have control characters or line ends")
        self._count(lower, self._headers.get(lower), stripped)
        self._headers[lower] = stripped

    def set_cookie(
        self,
        name: str,
        value: str,
        *,
        max_age_s: int | None,
        path: str,
        domain: str | None,
        secure: bool,
        http_only: bool,
        same_site: SameSite,
    ) -> None:
        """Sets a cookie; an earlier one of its name, path and domain is replaced. See `cookie_text`."""
        text = cookie_text(
            name,
            value,
            max_age_s=max_age_s,
            path=path,
            domain=domain,
            secure=secure,
            http_only=http_only,
            same_site=same_site,
        )
        key = name, path, domain
        self._count(_SET_COOKIE, self._cookies.get(key), text)
        self._cookies[key] = text

    def _count(self, name: str, before: str | None, after: str) -> None:
        size_bytes = self._size_bytes + len(after) - (-len(name) if before is None else len(before))
        fields = len(self._headers) + len(self._cookies) + (before is None)
        if size_bytes > _MOST_BYTES or fields > _MOST_FIELDS:
            raise ServiceError(
                f"the headers of an answer may be {_MOST_FIELDS} of {_MOST_BYTES} bytes together, and with {name!r}"
                f" there would be {fields} of {size_bytes}: put it into the body"
            )
        self._size_bytes = size_bytes


def checked_status(status: object) -> int:
    """The status of an answer that has a value.

    Raises:
        ServiceError: it is none, or one that only an error has.
    """
    if type(status) is not int or not 200 <= status <= 499 or status == 205:
        raise ServiceError(
            f"the status of an answer must be a whole number from 200 to 499 (and not 205), got {status!r:.40}: what"
            " fails on the server's side is raised, as trilith.errors.ServiceError for example"
        )
    return status


def _name(name: object) -> str:
    if not isinstance(name, str) or not TOKEN.fullmatch(name.encode("utf-8", "replace")):
        raise ServiceError(f"the name of a header must be a token (letters, digits, '-', '_'), got {name!r:.100}")
    lower = name.lower()
    if lower == _SET_COOKIE:
        raise ServiceError("cookies are set with set_cookie(name, value), which knows their attributes")
    if lower == "content-type":
        raise ServiceError("the content type of an answer follows from what the method returns: leave it out")
    if is_servers_own(lower.encode()):
        raise ServiceError(f"the server writes the header {lower!r} itself: leave it out")
    return lower

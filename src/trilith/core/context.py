"""What travels beside the values of a call: who asks, until when, where the time goes, and what the answer says."""

from __future__ import annotations

import contextvars
from pathlib import Path
from typing import Final

import msgspec

from trilith.core.answer_head import AnswerHead, checked_status
from trilith.core.cookies import SameSite, read_cookies
from trilith.core.identity import Identity
from trilith.core.temporary_folder import TemporaryFolder
from trilith.core.timeline import Timeline
from trilith.errors import ServiceError


class Context(msgspec.Struct, eq=False, kw_only=True):  # a Struct is made in a third of the time: one a call
    """The circumstances of one call. Created at the edge, handed down, never shared between calls.

    Attributes:
        request_id: text that appears in answers, errors and logs.
        deadline: absolute instant in seconds on the machine's monotonic clock, or None for no limit.
        timeline: stamps of this call; calls made on its behalf hang under it as children.
        headers: the caller's request headers that services may read; keys in lower case.
        client: the address of the client, `host:port`; "" when there is none.
        identity: who the caller is, when that was checked; else None.
        answer: what the method has said of its answer; None when nothing. For whoever answers.
        joined: of a batch: the contexts of its calls. For whoever runs it; read `items`.
        folder: of `temp_dir`, once asked for. For whoever ends the call.
        temporary_files: where that folder is made; None for where temporary files are.
    """

    request_id: str
    timeline: Timeline
    deadline: float | None = None
    headers: dict[str, str] = {}
    client: str = ""
    identity: Identity | None = None
    answer: AnswerHead | None = None
    joined: tuple[Context, ...] = ()
    folder: TemporaryFolder | None = None
    temporary_files: Path | None = None

    def remaining(self, now: float) -> float | None:
        """Seconds left until the deadline (negative when it passed), or None when there is none."""
        return None if self.deadline is None else self.deadline - now

    @property
    def items(self) -> tuple[Context, ...]:
        """The contexts of the calls that this one answers: of a batched method one for each item, in their order."""
        return self.joined or (self,)

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies of the request by name, as they came."""
        return read_cookies(self.headers.get("cookie", ""))

    @property
    def temp_dir(self) -> Path:
        """A folder for this call's files. It is made when it is first asked for, and removed when the call has ended.

        Raises:
            Cancelled: the call has ended.
            CapacityError: there is no room for it.
        """
        folder = self.folder
        if folder is None:
            folder = self.folder = TemporaryFolder(self.temporary_files)
        return folder.path

    @property
    def status(self) -> int:
        """The HTTP status of the answer; 200 unless it is set. 200 to 499: what fails is raised instead.

        An answer of 204 or 304 has no body, whatever the method returns.
        """
        return 200 if self.answer is None else self.answer.status

    @status.setter
    def status(self, status: int) -> None:
        self._answer().status = checked_status(status)

    def set_header(self, name: str, value: str) -> None:
        """Sets a header of the answer; an earlier value of that name is replaced. An error answer has none of them.

        Raises:
            ServiceError: it cannot be sent, or is one that the server writes itself.
        """
        self._answer().set_header(name, value)

    def set_cookie(
        self,
        name: str,
        value: str,
        *,
        max_age_s: int | None = None,
        path: str = "/",
        domain: str | None = None,
        secure: bool = True,
        http_only: bool = True,
        same_site: SameSite = "lax",
    ) -> None:
        """Has the client keep a cookie. Unless something else is said, no script reads it and no other site sends it.

        Args:
            name: letters, digits, `-`, `_`.
            value: printable ASCII without spaces, quotes, commas, semicolons and backslashes.
            max_age_s: seconds for which it is kept; None: until the browser is closed.
            path: paths that begin so get it.
            domain: this host and those below it get it; None: the host that sets it alone.
            secure: it travels over TLS only. Browsers take it from http://localhost too.
            http_only: scripts of a page do not see it.
            same_site: which requests caused by other sites bring it: none (`strict`), links (`lax`), all (`none`).

        Raises:
            ServiceError: a browser would not keep it as it is meant.
        """
        self._answer().set_cookie(
            name,
            value,
            max_age_s=max_age_s,
            path=path,
            domain=domain,
            secure=secure,
            http_only=http_only,
            same_site=same_site,
        )

    def delete_cookie(self, name: str, *, path: str = "/", domain: str | None = None) -> None:
        """Has the client forget a cookie: that of this name, path and domain.

        Raises:
            ServiceError: it is no name, path or domain.
        """
        self.set_cookie(name, "", max_age_s=0, path=path, domain=domain)

    def _answer(self) -> AnswerHead:
        if self.joined:
            raise ServiceError(
                f"this is the context of {len(self.joined)} calls that a batched method answers together, which has no"
                " answer of its own: trilith.context().items has those of the calls, in the order of the items"
            )
        if self.answer is None:
            self.answer = AnswerHead()
        return self.answer


current_context: Final[contextvars.ContextVar[Context | None]] = contextvars.ContextVar(
    "trilith_current_context", default=None
)
"""The context of the call that this task or thread works for; None outside any call."""

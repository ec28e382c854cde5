"""What a header may be (RFC 9110, section 5), a host, and which headers of answers only the server writes."""

from __future__ import annotations

import re
from typing import Final

TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header, and of a cookie."""

VALUE: Final = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
"""Its value: no control character, and so no line end."""

HOST: Final = re.compile(
    rb"(?:[0-9A-Za-z.\-_~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*(?::[0-9]*)?"
    rb"|\[[0-9A-Za-z:.%\-_~]+\](?::[0-9]*)?"
)
"""The value of `host`: a name or an address, in brackets one of IPv6, and perhaps a port (RFC 9110, section 7.2)."""

SERVERS_OWN: Final = frozenset(
    (
        b"connection",
        b"content-length",
        b"content-type",
        b"date",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"server",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"x-request-id",
    )
)
"""What frames a message or is the same in all of them: written in one place, and refused from anybody else."""

_WORD: Final = b"trilith-"


def is_servers_word(name: bytes) -> bool:
    """Whether clients take a header for the server's word: `trilith-not-begun` says that a call may be sent again.

    `name`: in lower case.
    """
    return name.startswith(_WORD)


def is_servers_own(name: bytes) -> bool:
    """Whether a header of an answer is the server's alone: its word, or one of `SERVERS_OWN`.

    `name`: in lower case.
    """
    return name in SERVERS_OWN or is_servers_word(name)

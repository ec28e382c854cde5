"""HTTP/1.1 without I/O: reading requests, the rules they must keep, and the heads of answers.

The parser is llhttp through `httptools`; what llhttp lets pass and a server must not (sizes, `Host`, versions,
trailers, upgrades) is decided here.
"""

from trilith.wire.http1 import refusal
from trilith.wire.http1.body import InboundBody
from trilith.wire.http1.head import ResponseHeads
from trilith.wire.http1.limits import HttpLimits
from trilith.wire.http1.reader import RequestReader, RequestSink
from trilith.wire.http1.refusal import Refusal
from trilith.wire.http1.upgrade import accept_token, listed

__all__ = [
    "HttpLimits",
    "InboundBody",
    "Refusal",
    "RequestReader",
    "RequestSink",
    "ResponseHeads",
    "accept_token",
    "listed",
    "refusal",
]

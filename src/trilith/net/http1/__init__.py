"""The HTTP server, on uvloop: HTTP/1.1 over llhttp, HTTP/2 for clients that begin with its preface, and websockets.

Limits before reading, backpressure both ways, an abort in mid-stream, a disconnect that cancels, and a bounded drain.
An application is a callable that takes an `HttpRequest`; see `HttpApp`.
"""

from trilith.net.http1.request import HttpRequest
from trilith.net.http1.server import HttpServer
from trilith.net.http1.state import AnswerHeaders, ErrorForm, HttpApp, usual_form
from trilith.net.http1.statistics import HttpStatistics
from trilith.net.http1.streaming import StreamedAnswer
from trilith.net.http1.tls import tls_context
from trilith.net.http1.websocket import WebSocket, WebSocketClosed
from trilith.wire.http1 import HttpLimits

__all__ = [
    "AnswerHeaders",
    "ErrorForm",
    "HttpApp",
    "HttpLimits",
    "HttpRequest",
    "HttpServer",
    "HttpStatistics",
    "StreamedAnswer",
    "WebSocket",
    "WebSocketClosed",
    "tls_context",
    "usual_form",
]

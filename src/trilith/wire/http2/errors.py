"""What can go wrong between two HTTP/2 ends, in the words of RFC 9113 section 7.

Rule: these two exceptions live inside the HTTP/2 layer. They become a GOAWAY or a RST_STREAM and an event; nobody above
the layer catches them.
"""

from __future__ import annotations

import enum
from typing import Final


class ErrorCode(enum.IntEnum):
    """The error codes of RST_STREAM and GOAWAY."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Refusal(enum.StrEnum):
    """What a peer did, in words that are few enough to count by. One code may stand for several of them."""

    HTTP1 = "http1"
    TLS = "tls"
    PREFACE = "preface"
    FRAME_SIZE = "frame_size"
    HEADER_COMPRESSION = "header_compression"
    HEADER_LIST = "header_list"
    MALFORMED_HEADERS = "malformed_headers"
    CONTENT_LENGTH = "content_length"
    FLOW_CONTROL = "flow_control"
    PROTOCOL = "protocol"
    PINGS = "too_many_pings"
    PING_FLOOD = "ping_flood"
    SETTINGS_FLOOD = "settings_flood"
    RESET_FLOOD = "reset_flood"
    CONTINUATION_FLOOD = "continuation_flood"
    EMPTY_FRAME_FLOOD = "empty_frame_flood"
    CONTROL_FLOOD = "control_flood"


_OF_CODE: Final = {
    ErrorCode.FRAME_SIZE_ERROR: Refusal.FRAME_SIZE,
    ErrorCode.COMPRESSION_ERROR: Refusal.HEADER_COMPRESSION,
    ErrorCode.FLOW_CONTROL_ERROR: Refusal.FLOW_CONTROL,
}


class ConnectionFault(Exception):
    """The peer broke a rule of the connection: answered by GOAWAY and a close."""

    def __init__(self, code: ErrorCode, reason: str, refusal: Refusal | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.refusal = refusal if refusal is not None else _OF_CODE.get(code, Refusal.PROTOCOL)


class StreamFault(Exception):
    """The peer broke a rule of one stream: answered by RST_STREAM, the others go on."""

    def __init__(self, stream_id: int, code: ErrorCode, reason: str, refusal: Refusal | None = None) -> None:
        super().__init__(reason)
        self.stream_id = stream_id
        self.code = code
        self.reason = reason
        self.refusal = refusal if refusal is not None else _OF_CODE.get(code, Refusal.PROTOCOL)

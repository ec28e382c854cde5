"""A websocket as its client sees it, without I/O: wsproto, with the few turns that a call of a method takes."""

from __future__ import annotations

from collections.abc import Mapping

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import ProtocolError

_SWITCHED = 101
_OWN = frozenset(("host", "upgrade", "connection", "content-type", "transfer-encoding"))


class WebSocketClient:
    """One websocket.

    Attributes:
        status: of the answer to the handshake, 101 when it is open; 0 before.
        headers: of another answer, by name in lower case.
        refusal: the body of another answer.
        refused: another answer is here to its end.
        code, reason: of the close; 0 while it is open.
    """

    def __init__(self) -> None:
        self._wire = WSConnection(ConnectionType.CLIENT)
        self._text: list[str] = []
        self._octets: list[bytes] = []
        self.status = 0
        self.headers: dict[str, str] = {}
        self.refusal = b""
        self.refused = False
        self.code = 0
        self.reason = ""

    def hello(self, host: str, target: str, headers: Mapping[str, str]) -> bytes:
        """What asks for it."""
        own = [(name.encode(), value.encode("latin-1")) for name, value in headers.items() if name not in _OWN]
        return self._wire.send(Request(host=host, target=target, extra_headers=own))

    def push(self, octets: bytes) -> tuple[list[str | bytes], bytes]:
        """Takes what came: the messages that are complete, and what is to be sent for it.

        Raises:
            ValueError: it is no answer to a handshake, or no websocket.
        """
        messages: list[str | bytes] = []
        answer = b""
        try:
            self._wire.receive_data(octets)
            for event in self._wire.events():
                if isinstance(event, TextMessage | BytesMessage):
                    messages += self._joined(event)
                elif isinstance(event, Ping):
                    answer += self._sent(event.response())
                elif isinstance(event, CloseConnection):
                    self.code, self.reason = int(event.code), event.reason or ""
                    answer += self._sent(event.response())
                elif isinstance(event, AcceptConnection):
                    self.status = _SWITCHED
                elif isinstance(event, RejectConnection):
                    self.status = event.status_code
                    self.headers = {name.decode().lower(): value.decode("latin-1") for name, value in event.headers}
                    self.refused = not event.has_body
                elif isinstance(event, RejectData):
                    self.refusal += event.data
                    self.refused = event.body_finished
        except ProtocolError as error:
            raise ValueError(f"it is no websocket: {error}") from error
        return messages, answer

    def end(self) -> bool:
        """The connection has ended. Whether that is the end of a refusal, which may say no length."""
        if self.status and self.status != _SWITCHED:
            self.refused = True
        return self.refused

    def message(self, content: str | bytes) -> bytes:
        """A message, as it is sent; b"" after the end."""
        made: TextMessage | BytesMessage = (
            TextMessage(data=content) if isinstance(content, str) else BytesMessage(data=content)
        )
        return self._sent(made)

    def _sent(self, event: Event) -> bytes:
        closing = isinstance(event, CloseConnection)
        fit = (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING) if closing else (ConnectionState.OPEN,)
        return self._wire.send(event) if self._wire.state in fit else b""

    def _joined(self, event: TextMessage | BytesMessage) -> list[str | bytes]:
        if isinstance(event.data, str):
            self._text.append(event.data)
        else:
            self._octets.append(bytes(event.data))
        if not event.message_finished:
            return []
        whole: str | bytes = "".join(self._text) if isinstance(event.data, str) else b"".join(self._octets)
        self._text, self._octets = [], []
        return [whole]

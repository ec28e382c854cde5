"""What the runtime and a model's process say to each other beside requests: while the model loads, and in notices.

Rule 1: sans-I/O, but for the two functions that read and write one message on a blocking socket.
Rule 2: loading is a dialogue of fixed order: Begin, Completed, Initialize, Ready; any number of Warm, Ready; Serve. In
    the place of an answer there may be a Failed; before one any number of Said and Counted.
Rule 3: on a connection of its own, the desk, a model asks while it executes, one question at a time, and is Told.
Rule 4: a message is four bytes of length and one msgpack array that starts with its name.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

import msgspec

from trilith.errors import ModelError

_LENGTH: Final = struct.Struct("<I")
_LONGEST_BYTES: Final = 1 << 30


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """Import the model, and let it complete its configuration.

    Attributes:
        model: its name.
        version: its version.
        instance: the name of the instance.
        kind: of the device that the instance is for: `CPU`.
        repository: the model's folder.
        folder: that of its version.
        path: the file with its class.
        config: its configuration as JSON.
        complete: whether `auto_complete_config` is asked.
    """

    model: str
    version: str
    instance: str
    kind: str
    repository: str
    folder: str
    path: str
    config: str
    complete: bool


class Initialize(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """Make the model ready. `config` is the completed configuration as JSON."""

    config: str


class Warm(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """Execute this batch, in the form that calls have, and answer Ready or Failed."""

    meta: bytes
    buffers: list[bytes]


class Serve(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What follows on this connection are frames. `repeatable`: a request may run twice if the process dies."""

    repeatable: bool = False


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """The model was imported; `config` is the configuration as JSON as the model wants it, "" when it has no say."""

    config: str


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """The model is initialized, or has executed what it should. `asks`: it has a method `is_ready`."""

    asks: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """The model raised. `text` is what went wrong as Triton writes it."""

    text: str


class Said(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """A line for the log. `level` is `info`, `warn`, `error` or `verbose`."""

    level: str
    text: str


class Declared(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """A family of metrics of the model's own. `kind` is `counter`, `gauge` or `histogram`."""

    name: str
    kind: str
    help: str


class Counted(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """A change of one series of a family: `change` is `add`, `set`, `observe` or `make` (it exists from now on)."""

    name: str
    labels: dict[str, str]
    change: str
    value: float
    buckets: list[float] = []


class TakenBack(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """The caller of one request of a running call went away. For the process; `at` counts from 0."""

    call_id: int
    at: int


class LoadModel(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """A question on the desk: load or reload another model. `files` are content by parameter (`file:1/model.py`)."""

    name: str
    files: dict[str, bytes]
    config: str


class UnloadModel(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """A question on the desk: unload another model."""

    name: str
    dependents: bool


class IsModelReady(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """A question on the desk: whether another model may be called. `version` is "" for any."""

    name: str
    version: str


class Told(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    """The answer to a question on the desk: `error` is why there is none, "" when all went well."""

    yes: bool = True
    error: str = ""


Question = LoadModel | UnloadModel | IsModelReady
Message = (
    Begin
    | Initialize
    | Warm
    | Serve
    | Completed
    | Ready
    | Failed
    | Said
    | Declared
    | Counted
    | TakenBack
    | Question
    | Told
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """A message without its length, as notices carry it."""
    return _encoder.encode(message)


def decode(raw: bytes) -> Message:
    """The inverse of `encode`.

    Raises:
        ModelError: the bytes are no message.
    """
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"what the process of a Python model said cannot be read: {error}") from error


def send(sock: socket.socket, message: Message) -> None:
    """Writes one message to a blocking socket.

    Raises:
        OSError: the other side is gone.
    """
    raw = encode(message)
    sock.sendall(_LENGTH.pack(len(raw)) + raw)


def receive(sock: socket.socket) -> Message:
    """Reads one message from a blocking socket, and not a byte more.

    Raises:
        EOFError: the other side is gone.
        ModelError: what came is no message.
    """
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size))
    if length > _LONGEST_BYTES:
        raise ModelError(f"what the process of a Python model said cannot be read: {length} bytes in one message")
    return decode(_exactly(sock, length))


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        try:
            part = sock.recv(size)
        except OSError as error:
            raise EOFError("the connection to a Python model's process is broken") from error
        if not part:
            raise EOFError("the process of a Python model has ended its connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

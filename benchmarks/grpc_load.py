"""A closed loop of unary gRPC calls over hand-written HTTP/2 frames: a client that costs little beside the server.

    python benchmarks/grpc_load.py 127.0.0.1:8001 [--model identity] [--concurrency 32] [--connections 1]

grpcio's own client costs several times what a thin server does; measured with it, every fast server looks the same.
Only what a load generator needs is here: unary calls, one body, no TLS. Frame layout: RFC 9113; message prefix: gRPC
over HTTP/2.

A request must fit the server's initial stream window (65,535 bytes unless the server says more).
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import hpack
import uvloop

from trilith.measure import DurationHistogram, cpu_seconds

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_END_STREAM, _ACK, _END_HEADERS, _PADDED, _PRIORITY = 1, 1, 4, 8, 32
_OUR_WINDOW: Final = (1 << 31) - 1
_CREDIT_AFTER: Final = 1 << 28


@dataclass(slots=True)
class Counts:
    """What one run gave.

    Attributes:
        latencies: of calls that ended with status 0.
        errors: failures by kind.
        elapsed_s: seconds measured.
        last_answer: the last piece of an answer's body.
    """

    latencies: DurationHistogram = field(default_factory=DurationHistogram)
    errors: Counter[str] = field(default_factory=Counter)
    elapsed_s: float = 0.0
    last_answer: bytes = b""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


class GrpcConnection(asyncio.Protocol):
    """One HTTP/2 connection with `in_flight` unary calls, each replaced by the next when it ends."""

    def __init__(self, head: bytes, message: bytes, in_flight: int, counts: Counts) -> None:
        self._head = head
        self._message = b"\0" + struct.pack(">I", len(message)) + message
        self._in_flight = in_flight
        self._counts = counts
        self._decoder = hpack.Decoder()
        self._known_blocks: dict[bytes, str] = {}
        self._buffer = b""
        self._sent_at: dict[int, float] = {}
        self._refused: dict[int, str] = {}
        self._block = bytearray()
        self._block_stream = 0
        self._block_ends = False
        self._next_stream = 1
        self._window = 65_535
        self._stream_window = 65_535
        self._largest_frame = 16_384
        self._unsent = 0
        self._received_since_credit = 0
        self._started = False
        self._stopped = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        settings = struct.pack(">HIHI", 2, 0, 4, _OUR_WINDOW)  # no push; the largest window for each stream
        transport.write(
            _PREFACE + frame(_SETTINGS, 0, 0, settings) + frame(_WINDOW, 0, 0, _increment(_OUR_WINDOW - 65_535))
        )

    def stop(self) -> None:
        self._stopped = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        position, end = 0, len(buffer)
        out: list[bytes] = []
        while end - position >= 9:
            length = int.from_bytes(buffer[position : position + 3], "big")
            if end - position < 9 + length:
                break
            kind, flags = buffer[position + 3], buffer[position + 4]
            stream = int.from_bytes(buffer[position + 5 : position + 9], "big") & 0x7FFF_FFFF
            self._frame(kind, flags, stream, buffer[position + 9 : position + 9 + length], out)
            position += 9 + length
        self._buffer = buffer[position:]
        self._send_waiting(out)
        if out:
            self._transport.write(b"".join(out))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._stopped:
            self._counts.errors["connection lost"] += len(self._sent_at) + self._unsent

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes, out: list[bytes]) -> None:
        if kind == _DATA:
            self._received_since_credit += len(payload)
            self._counts.last_answer = payload
            if self._received_since_credit >= _CREDIT_AFTER:
                out.append(frame(_WINDOW, 0, 0, _increment(self._received_since_credit)))
                self._received_since_credit = 0
            if flags & _END_STREAM:
                self._ended(stream, "no trailers")
        elif kind == _HEADERS:
            if flags & _PADDED:
                payload = payload[1 : len(payload) - payload[0]]
            if flags & _PRIORITY:
                payload = payload[5:]
            self._block = bytearray(payload)
            self._block_stream, self._block_ends = stream, bool(flags & _END_STREAM)
            self._end_block(flags)
        elif kind == _CONTINUATION:
            self._block += payload
            self._end_block(flags)
        elif kind == _SETTINGS and not flags & _ACK:
            self._settings(payload)
            out.append(frame(_SETTINGS, _ACK, 0))
            if not self._started:
                self._started = True
                self._unsent = self._in_flight
        elif kind == _PING and not flags & _ACK:
            out.append(frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == _RST:
            self._ended(stream, f"reset {int.from_bytes(payload, 'big')}")
        elif kind == _GOAWAY:
            self._counts.errors["server said goodbye"] += 1

    def _settings(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == 4:
                self._stream_window = value
            elif name == 5:
                self._largest_frame = value
        if len(self._message) > min(self._stream_window, self._largest_frame * 64):
            raise ValueError(f"the request has {len(self._message)} bytes, the stream window {self._stream_window}")

    def _end_block(self, flags: int) -> None:
        if not flags & _END_HEADERS:
            return
        status = self._grpc_status(bytes(self._block))
        if self._block_ends:
            self._ended(self._block_stream, "" if status == "0" else f"grpc-status {status or 'missing'}")

    def _grpc_status(self, block: bytes) -> str:
        known = self._known_blocks.get(block)
        if known is not None:
            return known
        table = self._decoder.header_table
        before = list(table.dynamic_entries)
        headers = self._decoder.decode(block, raw=True)
        status = next((value.decode() for name, value in headers if name == b"grpc-status"), "")
        if list(table.dynamic_entries) != before:
            self._known_blocks.clear()  # the same bytes may mean something else from now on
        else:
            self._known_blocks[block] = status
        return status

    def _ended(self, stream: int, error: str) -> None:
        now = time.perf_counter()
        sent_at = self._sent_at.pop(stream, None)
        if sent_at is None:
            return
        if error:
            self._counts.errors[error] += 1
        else:
            self._counts.latencies.record(now - sent_at)
        self._unsent += 1

    def _send_waiting(self, out: list[bytes]) -> None:
        size = len(self._message)
        while self._unsent and self._window >= size:
            self._unsent -= 1
            self._window -= size
            stream = self._next_stream
            self._next_stream += 2
            self._sent_at[stream] = time.perf_counter()
            out.append(frame(_HEADERS, _END_HEADERS, stream, self._head))
            for start in range(0, size, self._largest_frame):
                part = self._message[start : start + self._largest_frame]
                out.append(frame(_DATA, _END_STREAM if start + len(part) == size else 0, stream, part))


class GrpcLoad:
    """Unary calls of one method with one message."""

    def __init__(self, host: str, port: int, path: str, message: bytes) -> None:
        self._address = (host, port)
        self._message = message
        # Without indexing every request has the same head, and the encoder keeps no state.
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", f"{host}:{port}"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "trilith-grpc-load"),
        ]
        self._head = b"".join(_literal(name) + _literal(value, first=False) for name, value in fields)

    async def run(self, *, concurrency: int, duration_s: float, connections: int = 1) -> Counts:
        """Runs the loop for `duration_s` seconds with `concurrency` calls in flight in all."""
        counts = Counts()
        loop = asyncio.get_running_loop()
        started_at = time.perf_counter()
        opened = []
        for index in range(connections):
            share = concurrency // connections + (index < concurrency % connections)
            _, connection = await loop.create_connection(
                lambda share=share: GrpcConnection(self._head, self._message, share, counts), *self._address
            )
            opened.append(connection)
        await asyncio.sleep(duration_s)
        counts.elapsed_s = time.perf_counter() - started_at
        for connection in opened:
            connection.stop()
        await asyncio.sleep(0)
        return counts


def _literal(text: str, *, first: bool = True) -> bytes:
    """A header's name or value as an HPACK literal without indexing (RFC 7541, section 6.2.2); below 127 bytes."""
    raw = text.encode()
    if len(raw) >= 127:
        raise ValueError(f"header text of {len(raw)} bytes: this client writes at most 126")
    return (b"\0" if first else b"") + bytes((len(raw),)) + raw


def _increment(size: int) -> bytes:
    return struct.pack(">I", size)


def identity_request(model: str = "identity", values: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0)) -> bytes:
    """A `ModelInferRequest` with one FP32 tensor `INPUT0` of shape [1, N], as raw contents."""

    def field_of(number: int, content: bytes) -> bytes:
        return bytes((number << 3 | 2,)) + _varint(len(content)) + content

    shape = _varint(1) + _varint(len(values))
    tensor = field_of(1, b"INPUT0") + field_of(2, b"FP32") + field_of(3, shape)
    raw = struct.pack(f"<{len(values)}f", *values)
    return field_of(1, model.encode()) + field_of(5, tensor) + field_of(7, raw)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


async def _main(options: argparse.Namespace) -> None:
    host, _, port = options.address.rpartition(":")
    load = GrpcLoad(host, int(port), options.path, identity_request(options.model))
    await load.run(concurrency=options.concurrency, duration_s=options.warmup, connections=options.connections)
    before_s = cpu_seconds(options.pid) if options.pid else 0.0
    own_before_s = time.process_time()
    counts = await load.run(
        concurrency=options.concurrency, duration_s=options.duration, connections=options.connections
    )
    own_share = (time.process_time() - own_before_s) / counts.elapsed_s
    summary = counts.latencies.summary()
    line = (
        f"{summary.count / counts.elapsed_s:,.0f} calls/s  p50 {summary.p50_s * 1e3:.3f} ms  p99"
        f" {summary.p99_s * 1e3:.3f} ms  max {summary.max_s * 1e3:.1f} ms  errors {dict(counts.errors)}"
        f"  generator {own_share:.0%} of a core"
    )
    if options.pid and summary.count:
        line += f"  server {(cpu_seconds(options.pid) - before_s) / summary.count * 1e6:.1f} us CPU/call"
    print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address", help="HOST:PORT")
    parser.add_argument("--path", default="/inference.GRPCInferenceService/ModelInfer")
    parser.add_argument("--model", default="identity")
    parser.add_argument("--concurrency", type=int, default=32, help="calls in flight, over all connections")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--duration", type=float, default=5.0, help="seconds")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds")
    parser.add_argument("--pid", type=int, help="the server's process id: measure its CPU time a call")
    uvloop.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()

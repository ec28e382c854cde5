"""An application with one method for each way of answering; it records what happened to its calls."""

import asyncio
import json
import threading

from trilith.errors import NotFound, QueueFull
from trilith.wire.grpc_status import GrpcStatus


class RecordingApp:
    def __init__(self):
        self.calls = []
        self.started = threading.Event()
        self.cancelled = threading.Event()
        self.waiting = []

    def __call__(self, call):
        self.calls.append(call)
        method = call.path.decode().rpartition("/")[2].lower()
        handler = getattr(self, method, None)
        if handler is None:
            raise NotFound(f"no method {method}")
        return handler(call)

    def echo(self, call):
        call.reply(bytes(call.message))

    def large(self, call):
        call.reply(b"z" * int(call.message))

    def later(self, call):
        asyncio.get_running_loop().call_later(0.01, call.reply, bytes(call.message))

    async def task(self, call):
        await asyncio.sleep(0.001)
        call.reply(bytes(call.message), trailers=[(b"x-served-by", b"task"), (b"x-raw-bin", b"AAEC")])

    def metadata(self, call):
        call.reply(json.dumps([(n.decode(), v.decode("latin-1")) for n, v in call.metadata]).encode())

    def deadline(self, call):
        call.reply(b"none" if call.deadline is None else b"%f" % (call.deadline - call.received_at))

    async def sleep(self, call):
        self.started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def hold(self, call):
        call.on_cancel = self.cancelled.set
        self.waiting.append(call)
        self.started.set()

    def full(self, call):
        call.fail_error(QueueFull("the queue of 10 is full: try again"))

    def denied(self, call):
        call.fail(GrpcStatus.PERMISSION_DENIED, "not for you: é %")

    def boom(self, call):
        raise ValueError("secret detail")

    async def boomlater(self, call):
        await asyncio.sleep(0)
        raise ValueError("secret detail")

    async def silent(self, call):
        await asyncio.sleep(0)

    def twice(self, call):
        call.reply(b"first")
        call.reply(b"second")

    def long(self, call):
        call.fail(GrpcStatus.NOT_FOUND, f"[request id: {call.message.decode() * 100_000}] it is said at the end")

    def many(self, call):
        call.reply(b"", trailers=[(b"x-many", b"y" * 2000)])

"""A service of all four kinds of methods, as a `GrpcApp`."""

import asyncio
import threading

from trilith.errors import InvalidInput
from trilith.wire.grpc_status import GrpcStatus

STREAMING = tuple(
    f"/s/{name}".encode() for name in ("Chat", "Sum", "Refuse", "Fail", "Ignore", "Forever", "Peek", "Unread", "Early")
)


class StreamApp:
    def __init__(self):
        self.started = threading.Event()
        self.cancelled = threading.Event()
        self.sent = 0
        self.read = 0
        self.may_read = asyncio.Event()
        self.calls = []

    def __call__(self, call):
        self.calls.append(call)
        return getattr(self, call.path.decode().rpartition("/")[2].lower())(call)

    async def echo(self, call):
        call.reply(bytes(call.message))

    async def chat(self, call):
        call.begin([(b"x-kind", b"chat"), (b"x-kind", b"again")])
        async for message in call.messages():
            await call.send(message)
        call.finish(trailers=[(b"x-total", b"all")])

    async def count(self, call):
        """One message in, as many out."""
        for number in range(int(call.message)):
            await call.send(b"%d" % number)
        call.finish()

    async def sum(self, call):
        total = 0
        async for message in call.messages():
            total += len(message)
        call.reply(b"%d" % total)

    async def fail(self, call):
        async for message in call.messages():
            if bytes(message) == b"bad":
                raise InvalidInput("this one is bad")
            await call.send(message)
        call.finish()

    async def refuse(self, call):
        call.fail(GrpcStatus.PERMISSION_DENIED, "not for you")

    async def early(self, call):
        """Answers everything after the first message, whatever else comes."""
        await call.send(await anext(call.messages()))
        call.finish()

    async def forever(self, call):
        self.started.set()
        try:
            while True:
                await call.send(b"z" * 100_000)
                self.sent += 1
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def wait(self, call):
        """One message in; an answer that begins, and then nothing."""
        await call.send(b"first")
        self.started.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def polite(self, call):
        """Goes on until the connection drains."""
        ended = asyncio.Event()
        call.on_drain = ended.set
        await call.send(b"first")
        self.started.set()
        await ended.wait()
        await call.send(b"last")
        call.finish()

    async def unread(self, call):
        self.started.set()
        await self.may_read.wait()
        async for message in call.messages():
            self.read += len(message)
        call.reply(b"%d" % self.read)

    async def who(self, call):
        certificate = call.peer_certificate
        names = dict(pair[0] for pair in certificate["subject"]) if certificate else {}
        call.reply(names.get("commonName", "nobody").encode())

import asyncio
import threading

import grpc
import pytest
import uvloop
from grpc_app import RecordingApp

from trilith.net.grpc import GrpcServer


class ServerThread:
    """A `GrpcServer` on a loop of its own thread, so that blocking clients can talk to it."""

    def __init__(self, app, **options):
        self.app = app
        self.server = GrpcServer(app, **options)
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self):
        self._thread.start()
        self.run(self.server.start())
        return self

    def run(self, coroutine, timeout_s=20):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout_s)

    async def _finish(self):
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def call_soon(self, function, *arguments):
        async def do():
            return function(*arguments)

        return self.run(do())

    @property
    def target(self):
        host, port = self.server.addresses[0]
        return f"{host}:{port}"

    @property
    def statistics(self):
        return self.call_soon(self.server.statistics)

    def stop(self):
        cut = self.run(self.server.drain(2.0))
        self.run(self._finish())  # a task that was cancelled last has yet to take its step
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        return cut


@pytest.fixture
def serve():
    """Starts servers: `serve(app=None, **options)`."""
    started = []

    def start(app=None, **options):
        started.append(ServerThread(app or RecordingApp(), **options).start())
        return started[-1]

    yield start
    for each in started:
        if each._loop.is_running():
            each.stop()


@pytest.fixture
def connect():
    """Opens grpcio channels of their own connections, and closes them: `connect(target)`."""
    opened = []

    def open_channel(target, credentials=None, **options):
        defaults = {
            "grpc.use_local_subchannel_pool": 1,
            "grpc.max_send_message_length": -1,
            "grpc.max_receive_message_length": -1,
        }
        options = list({**defaults, **options}.items())
        if credentials is None:
            opened.append(grpc.insecure_channel(target, options=options))
        else:
            opened.append(grpc.secure_channel(target, credentials, options=options))
        return opened[-1]

    yield open_channel
    for channel in opened:
        channel.close()

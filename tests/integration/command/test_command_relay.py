"""What is passed on, against servers that misbehave."""

import asyncio
import socket

import pytest

from trilith.errors import NoReadyReplica, ReplicaLost, ServiceError
from trilith.service.command.headers import Asked
from trilith.service.command.options import Command as Declared
from trilith.service.command.relay import relay
from trilith.service.command.running import RunningCommand
from trilith.service.command.upstream import Upstream

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Command:
    """A process that runs, as the relay sees it."""

    how_it_ended = ""

    def __init__(self, port):
        self.upstream = Upstream("127.0.0.1", port)
        self.held = 0


class Client:
    """Whoever asked."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.status, self.headers, self.body, self.ended = 0, [], b"", False

    async def receive(self):
        piece = self.pieces.pop(0) if self.pieces else None
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def start(self, status, headers=()):
        self.status, self.headers = status, list(headers)

    async def send(self, data):
        self.body += data

    async def finish(self, data=b""):
        self.body += data
        self.ended = True


def asked(method="GET", **headers):
    fields = [(b"host", b"h"), *((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())]
    return Asked(
        method=method, raw_path=b"/a", query=b"", headers=fields, client="", scheme="http", prefix="", request_id="r"
    )


def scenario(*connections):
    """Runs a test with a server that has a function for each connection, in their order."""

    def decorate(test):
        def run():
            async def main():
                left, seen = list(connections), []

                async def served(reader, writer):
                    try:
                        await left.pop(0)(reader, writer, seen)
                    finally:
                        writer.close()

                server = await asyncio.start_server(served, "127.0.0.1", 0)
                command = Command(server.sockets[0].getsockname()[1])
                async with asyncio.timeout(30):
                    await test(command, seen)
                assert command.held == 0
                command.upstream.close()
                server.close()
                await server.wait_closed()

            asyncio.run(main())

        run.__name__ = test.__name__
        return run

    return decorate


async def head(reader):
    return await reader.readuntil(b"\r\n\r\n")


async def answers_once(reader, writer, seen):
    """Keeps the connection, and ends it at the second request."""
    seen.append(await head(reader))
    writer.write(ANSWER)
    seen.append(await head(reader))


async def answers(reader, writer, seen):
    seen.append(await head(reader))
    writer.write(ANSWER)


@scenario(answers_once, answers)
async def test_a_kept_connection_that_ended_is_no_error_of_a_request_that_may_be_sent_twice(command, seen):
    for _ in range(2):
        client = Client()
        await relay(asked(), client, command, "Echo")
        assert (client.status, client.body, client.ended) == (200, b"ok", True)
    assert len(seen) == 3


@scenario(answers_once)
async def test_a_request_that_may_have_done_something_is_not_sent_twice(command, seen):
    await relay(asked(), Client(), command, "Echo")
    with pytest.raises(ReplicaLost, match="ended the connection before it answered"):
        await relay(asked("POST", content_length="0"), Client(), command, "Echo")
    assert len(seen) == 2


async def keeps(reader, writer, seen):
    for _ in range(2):
        seen.append(await head(reader))
        writer.write(ANSWER)


@scenario(keeps)
async def test_a_connection_is_used_again(command, seen):
    for _ in range(2):
        await relay(asked(), Client(), command, "Echo")
    assert len(seen) == 2


async def cuts(reader, writer, seen):
    await head(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")


@scenario(cuts)
async def test_an_answer_that_is_cut_is_cut(command, seen):
    client = Client()
    with pytest.raises(ReplicaLost, match="in the middle of its answer"):
        await relay(asked(), client, command, "Echo")
    assert (client.status, client.ended) == (200, False)


async def switches(reader, writer, seen):
    await head(reader)
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
    await reader.read()


@scenario(switches)
async def test_a_switch_that_nobody_asked_for_is_an_error(command, seen):
    with pytest.raises(ServiceError, match="101"):
        await relay(asked(), Client(), command, "Echo")


async def reads_all(reader, writer, seen):
    seen.append(await reader.read())


@scenario(reads_all)
async def test_a_body_that_breaks_off_is_the_error_of_who_sent_it(command, seen):
    client = Client(b"some", ConnectionResetError("the client has gone"))
    with pytest.raises(ConnectionResetError, match="the client has gone"):
        await relay(asked("POST"), client, command, "Echo")
    assert client.status == 0


class Gone(Exception):
    pass


@scenario(reads_all)
async def test_whatever_a_body_fails_with_comes_out(command, seen):
    with pytest.raises(Gone):
        await relay(asked("POST"), Client(b"some", Gone()), command, "Echo")


async def ignores(reader, writer, seen):
    await head(reader)
    writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
    await writer.drain()


@scenario(ignores)
async def test_an_answer_may_come_before_the_body_was_read(command, seen):
    client = Client(*[b"x" * 65536] * 200)
    await relay(asked("POST"), client, command, "Echo")
    assert (client.status, client.ended) == (413, True)


def test_a_process_that_takes_no_connection_is_said_to_be_none():
    async def main():
        command = Command(1)
        command.how_it_ended = "it was killed by SIGKILL"
        with pytest.raises(NoReadyReplica, match="of Echo could not be asked: it was killed by SIGKILL"):
            await relay(asked(), Client(), command, "Echo")

    asyncio.run(main())


def slow_words(more, method="GET"):
    """Answers, then says more to the connection that waits."""

    async def serve(reader, writer, seen):
        seen.append(await head(reader))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n" + (b"" if method == "HEAD" else b"answered"))
        await asyncio.sleep(0)
        writer.write(more)
        seen.append(await reader.read())  # its end

    return serve


async def victim(reader, writer, seen):
    seen.append(await head(reader))
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nown")


POISON = b"HTTP/1.1 200 OK\r\nset-cookie: evil=1\r\ncontent-length: 8\r\n\r\nPOISONED"
TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize("more", [POISON, TIMED_OUT, b"\r\n", b"x"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_comes_on_a_connection_that_waits_answers_nobody(more, method):
    @scenario(slow_words(more, method), victim)
    async def asks(command, seen):
        await relay(asked(method), Client(), command, "Echo")
        while len(seen) < 2:  # noqa: ASYNC110 - until the connection was closed
            await asyncio.sleep(0.001)
        client = Client()
        await relay(asked("POST"), client, command, "Echo")
        assert (client.status, client.body, client.headers) == (200, b"own", [(b"content-length", b"3")])

    asks()


def test_what_the_loop_has_not_seen_yet_answers_nobody():
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as server:
            upstream = Upstream("127.0.0.1", server.getsockname()[1])
            first = await upstream.take()
            peer, _ = server.accept()
            with peer:
                upstream.give_back(first)
                peer.sendall(TIMED_OUT)
                again = await upstream.take()
                assert again is not first
                assert not again.used
                again.close()
            upstream.close()

    asyncio.run(main())


async def times_out(reader, writer, seen):
    for answer in (ANSWER, TIMED_OUT):
        seen.append(await head(reader))
        writer.write(answer)


@scenario(times_out, victim)
async def test_408_of_a_kept_connection_is_the_end_of_the_connection(command, seen):
    await relay(asked(), Client(), command, "Echo")
    client = Client()
    await relay(asked(), client, command, "Echo")
    assert (client.status, client.body, len(seen)) == (200, b"own", 3)


async def says_408(reader, writer, seen):
    await head(reader)
    writer.write(TIMED_OUT)


@scenario(says_408)
async def test_408_of_a_new_connection_is_the_answer(command, seen):
    client = Client()
    await relay(asked(), client, command, "Echo")
    assert client.status == 408


def test_an_octet_to_anybody_is_a_sign_of_life_and_a_request_in_hand_is_none():
    async def main():
        running = RunningCommand("Echo", Declared(["echo"]), ())
        writers = asyncio.Queue()
        server = await asyncio.start_server(lambda _, writer: writers.put_nowait(writer), "127.0.0.1", running.port)
        connection = await running.upstream.take()
        writer = await writers.get()
        running.held = 1
        assert await running.look(0.05) == ("", "it does not answer within 0.05 s")
        writer.write(b"x")
        assert await connection.read(1) == b"x"
        assert await running.look(0.05) == ("", "")
        running.held = 0
        assert await running.look(0.05) == ("it does not answer within 0.05 s",) * 2
        connection.close()
        writer.close()
        while not writers.empty():
            writers.get_nowait().close()
        server.close()
        await server.wait_closed()

    asyncio.run(main())

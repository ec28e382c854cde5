"""A large body is read in turns: what waits behind it is not held up until it has come."""

import asyncio

from trilith.net.http1.request import HttpRequest

PIECE = bytes(256_000)
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"


async def whole(request: HttpRequest) -> None:
    request.respond(200, b"%d" % len(await request.body()))


async def held(request: HttpRequest) -> None:
    await asyncio.sleep(3600)


def test_a_full_read_ends_the_turn_of_its_connection(connect):
    client = connect(whole)
    client.send(HEAD % (3 * len(PIECE)))
    for _ in range(2):
        client.connection.data_received(PIECE)
        assert not client.transport.reading
        client.settle()
        assert client.transport.reading
    client.connection.data_received(PIECE[:1000])
    assert client.transport.reading  # there is no more for now
    client.send(PIECE[1000:])
    assert client.transport.written.endswith(b"\r\n\r\n768000")


def test_a_client_that_is_held_meanwhile_stays_held(connect):
    client = connect(held, read_ahead_bytes=300_000)
    client.send(HEAD % (9 * len(PIECE)))
    client.send(PIECE, PIECE)  # more than it reads ahead
    assert not client.transport.reading
    assert client.connection in client.watch.watched
    client.leave()


def test_a_connection_that_ends_meanwhile_is_not_read_again(connect):
    client = connect(held)
    client.send(HEAD % (9 * len(PIECE)))
    client.connection.data_received(PIECE)
    client.connection.connection_lost(None)
    for _ in range(3):
        client.loop.run_until_complete(asyncio.sleep(0))
    assert not client.transport.reading

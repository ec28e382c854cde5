"""What is held for clients has a bound, for a server and for a connection, whatever the protocol."""

import pytest
from grpc_memory import MemoryClient
from hypothesis import given
from hypothesis import strategies as st
from test_http_over_http2 import POST, Rest

from trilith.net.held_bytes import LARGE_BYTES, ConnectionShare, HeldBytes
from trilith.net.http2_stalls import PATIENT_BYTES, StallWatch, least_bytes
from trilith.wire.http2 import frames as f

LARGE = b"x" * (LARGE_BYTES + 1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.booleans()), max_size=40))
def test_the_sum_is_that_of_the_shares_and_nothing_stays(steps: list[tuple[int, int, bool]]) -> None:
    held = HeldBytes(100, 40)
    shares = [ConnectionShare(held) for _ in range(3)]
    for number, size, is_request in steps:
        if is_request:
            shares[number].take(size)
        else:
            shares[number].unsent(size)
        each = [share.requests_bytes + share.answers_bytes for share in shares]
        assert held.held_bytes == sum(each)
        assert shares[number].passed == (sum(each) > 100 or each[number] > 40)
        assert shares[number].met == (sum(each) >= 100 or each[number] >= 40)
    for share in shares:
        share.end()
        share.take(5)  # of a request that hears late of the end
    assert held.held_bytes == 0


def test_what_is_told_says_whose_bound_it_is() -> None:
    held = HeldBytes(8 << 20)
    one, other = ConnectionShare(held), ConnectionShare(held)
    one.take(3 << 20)
    assert "this connection" in one.refuse()
    assert "2 MiB" in one.refuse()
    other.take(5 << 20)
    assert "the server" in one.refuse()
    assert held.refused == 3


def bounded(client: Rest | MemoryClient, limit_bytes: int, share_bytes: int) -> HeldBytes:
    held = client.state.held
    fresh = HeldBytes(limit_bytes, share_bytes)
    held.limit_bytes, held.share_bytes, held.last_bytes = fresh.limit_bytes, fresh.share_bytes, fresh.last_bytes
    return held


def test_bodies_of_one_http2_connection_are_refused_over_its_share() -> None:
    client = Rest()
    held = bounded(client, 1 << 20, 100_000)
    piece = b"x" * 15_000
    for stream_id in range(1, 21, 2):
        client.send(client.headers(stream_id, POST) + f.frame(f.DATA, 0, stream_id, piece))
    answers = client.answers()
    assert len(answers) == 4
    assert {fields[b":status"] for fields, _, _ in answers.values()} == {b"429"}
    assert b"this connection holds" in answers[19][1]
    assert held.held_bytes == 90_000
    client.server.connection_lost(None)
    assert held.held_bytes == 0


def test_http2_requests_are_held_until_they_are_answered() -> None:
    client = Rest()
    held = bounded(client, 1_000, 1_000)
    for stream_id in (1, 3, 5):
        client.send(client.post(stream_id, b"x" * 500))
    assert len(client.requests) == 2
    assert client.answers()[5][0][b":status"] == b"429"
    client.requests[0].respond(200)
    assert held.held_bytes == 500
    client.send(client.post(7, b"x" * 500))
    assert len(client.requests) == 3


def test_answers_that_an_http2_client_does_not_read_are_given_up() -> None:
    client = Rest()
    held = bounded(client, 1 << 20, 100_000)
    client.send(f.settings_frame([(4, 0)]))
    for stream_id in (1, 3, 5, 7):
        client.send(client.get(stream_id))
    for request in client.requests:
        request.respond(200, LARGE)
        client.written()
    assert held.held_bytes < 2 * len(LARGE) + 2_000
    client.send(f.settings_frame([(4, 1 << 20)]) + f.window_update_frame(0, 1 << 20))
    client.written()
    assert held.held_bytes == 0


def test_calls_are_held_until_they_are_answered() -> None:
    client = MemoryClient(max_buffered_bytes=1_000)
    held = client.state.held
    for stream_id in (1, 3, 5):
        client.send(client.call(stream_id, b"x" * 500))
    assert len(client.calls) == 2
    client.calls[0].reply(b"")
    client.calls[1].reply(b"")
    assert held.held_bytes == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_answers_that_a_grpc_client_does_not_read_are_given_up(streamed: bool) -> None:
    client = MemoryClient()
    held = bounded(client, 1 << 20, 100_000)
    client.send(f.settings_frame([(4, 0)]))
    refused = 0
    for stream_id in (1, 3, 5, 7):
        client.send(client.call(stream_id, b""))
        call = client.calls[-1]
        try:
            if streamed:
                call.send_now(LARGE)
            else:
                call.reply(LARGE)
        except Exception as error:  # noqa: BLE001 - counted
            refused += "is not kept" in str(error)
    client.written()
    assert held.refused == 2
    assert refused == (2 if streamed else 0)
    assert held.held_bytes < 2 * len(LARGE) + 2_000
    client.server.connection_lost(None)
    assert held.held_bytes == 0


def test_a_window_that_opens_by_a_byte_is_a_stall() -> None:
    watch = StallWatch(30)
    stalled = [
        watch.stalled({1: (second // 8, 1 << 20), 3: (second // 8, PATIENT_BYTES)}, second) for second in range(40)
    ]
    assert stalled[30] == []
    assert stalled[31] == [1]
    assert stalled[39] == [1]


def test_the_least_rate_is_enough() -> None:
    watch = StallWatch(30)
    for second in range(100):
        assert watch.stalled({1: (second * 1100, 1 << 20)}, second) == []
    assert least_bytes(1 << 20, 30) == 30 << 10

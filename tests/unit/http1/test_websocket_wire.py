"""Octets to messages and back, against what two other implementations of RFC 6455 write and read."""

import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websocket_octets import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, close, deflated, frame, frames_of
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from wsproto.connection import CLIENT, Connection
from wsproto.events import BytesMessage, CloseConnection, TextMessage

from trilith.wire import websocket as wire
from trilith.wire.websocket import Closing, Part, Ping, Pong, WebSocketReader, WebSocketViolation
from trilith.wire.websocket_deflate import Deflate, Inflation, agreed

LIMIT = 5000
MESSAGES = st.one_of(
    st.text(max_size=300), st.binary(max_size=300), st.integers(900, 4000).map(lambda n: "ab" * (n // 2))
)


def reader_of(octets: bytes = b"", *, limit: int = LIMIT, deflates: bool = False) -> WebSocketReader:
    reader = WebSocketReader(max_message_bytes=limit, deflate=Deflate() if deflates else None)
    reader.feed(octets)
    return reader


def everything(reader: WebSocketReader) -> list[object]:
    found = []
    while (one := reader.next()) is not None:
        if one is not Part.READ:
            found.append(one)
        if isinstance(one, Closing):
            break
    return found


def violation(octets: bytes, **options: object) -> tuple[int, str]:
    with pytest.raises(WebSocketViolation) as caught:
        everything(reader_of(octets, **options))
    return caught.value.code, caught.value.reason


@given(st.lists(st.tuples(MESSAGES, st.booleans(), st.lists(st.integers(0, 300), max_size=3)), max_size=6), st.data())
def test_messages_come_as_they_were_sent(messages, data):
    """In fragments, compressed or not, with signs of life between, however the network cuts it."""
    extension = PerMessageDeflate(True, True, 15, 15)
    octets, expected = b"", []
    for message, compressed, places in messages:
        payload = message.encode() if isinstance(message, str) else message
        cuts = sorted(min(place, len(payload)) for place in places)
        parts = [payload[a:b] for a, b in zip([0, *cuts], [*cuts, len(payload)], strict=True)]
        for at, part in enumerate(parts):
            if at:
                octets += Frame(Opcode.PING, bytes([at])).serialize(mask=True)
                expected.append(Ping(bytes([at])))
            first = Opcode.TEXT if isinstance(message, str) else Opcode.BINARY
            made = Frame(Opcode.CONT if at else first, part, fin=at == len(parts) - 1)
            octets += made.serialize(mask=True, extensions=[extension] if compressed else [])
        expected.append(message)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=8)))
    reader = reader_of(deflates=True)
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(octets)], strict=True):
        reader.feed(octets[begin:end])
        found += everything(reader)
    assert found == expected
    assert reader.held_bytes == 0


@given(st.lists(MESSAGES, max_size=6), st.booleans())
def test_what_a_server_writes_is_read_by_others(messages, compresses):
    deflate = Deflate() if compresses else None
    octets = b""
    for message in messages:
        payload = message.encode() if isinstance(message, str) else message
        made = None if deflate is None else deflate.compress(payload)
        sent = payload if made is None else made
        octets += wire.message_head(len(sent), text=isinstance(message, str), compressed=made is not None) + sent
    octets += wire.ping_frame(b"there?") + wire.pong_frame(b"here") + wire.close_frame(1000, "enough")

    frames = frames_of(octets)
    assert [each.opcode for each in frames[-3:]] == [Opcode.PING, Opcode.PONG, Opcode.CLOSE]
    assert [bytes(each.data) for each in frames[:-3]] == [
        message.encode() if isinstance(message, str) else message for message in messages
    ]
    if not compresses:
        client = Connection(CLIENT)
        client.receive_data(octets)
        *found, last = client.events()
        assert [event.data for event in found if isinstance(event, TextMessage | BytesMessage)] == messages
        assert isinstance(last, CloseConnection)
        assert (last.code, last.reason) == (1000, "enough")


def test_a_message_is_bounded_by_what_its_frames_announce():
    head = frame(BINARY, b"x" * (LIMIT + 1))[:14]
    assert violation(head) == (wire.TOO_BIG, f"a message is longer than {LIMIT} bytes")
    assert everything(reader_of(frame(BINARY, b"x" * LIMIT))) == [b"x" * LIMIT]
    parts = frame(BINARY, b"x" * LIMIT, fin=False) + frame(CONTINUATION, b"y")[:6]
    assert violation(parts)[0] == wire.TOO_BIG
    longest = bytes((0x82, 0xFF)) + (2**63 - 1).to_bytes(8, "big") + b"mask"
    assert violation(longest)[0] == wire.TOO_BIG


def test_a_few_octets_do_not_become_more_than_the_longest_message():
    bomb = deflated(b"\0" * 50_000_000)
    assert len(bomb) < 60_000
    for cut in (bomb, bomb[:100]):  # the beginning is enough
        assert violation(frame(BINARY, cut, bits=4, fin=False), deflates=True)[0] == wire.TOO_BIG
    fits = deflated(b"\0" * LIMIT)
    assert everything(reader_of(frame(BINARY, fits, bits=4), deflates=True)) == [b"\0" * LIMIT]
    assert violation(frame(BINARY, deflated(b"\0" * (LIMIT + 1)), bits=4), deflates=True)[0] == wire.TOO_BIG
    # Many small fragments add up.
    many = frame(TEXT, deflated(b"a" * 4000), bits=4, fin=False)
    rest = zlib.compressobj(wbits=-15)
    more = rest.compress(b"a" * 4000) + rest.flush(zlib.Z_SYNC_FLUSH)
    assert violation(many + frame(CONTINUATION, b"\0\0\xff\xff" + more), deflates=True)[0] == wire.TOO_BIG


BROKEN = {
    "no mask": (frame(TEXT, b"a", mask=None), wire.PROTOCOL_ERROR),
    "no mask of a sign": (frame(PING, b"a", mask=None), wire.PROTOCOL_ERROR),
    "a second reserved bit": (frame(TEXT, b"a", bits=2), wire.PROTOCOL_ERROR),
    "a third reserved bit": (frame(TEXT, b"a", bits=1), wire.PROTOCOL_ERROR),
    "compressed, which was not agreed": (frame(TEXT, b"a", bits=4), wire.PROTOCOL_ERROR),
    "an unknown kind": (frame(3, b"a"), wire.PROTOCOL_ERROR),
    "an unknown sign": (frame(11, b"a"), wire.PROTOCOL_ERROR),
    "a sign in fragments": (frame(PING, b"a", fin=False), wire.PROTOCOL_ERROR),
    "a long sign": (frame(PING, b"a" * 126), wire.PROTOCOL_ERROR),
    "a continuation of nothing": (frame(CONTINUATION, b"a"), wire.PROTOCOL_ERROR),
    "a continuation of what has ended": (frame(TEXT, b"a") + frame(CONTINUATION, b"a"), wire.PROTOCOL_ERROR),
    "a message in a message": (frame(TEXT, b"a", fin=False) + frame(BINARY, b"a"), wire.PROTOCOL_ERROR),
    "a length in too many octets": (bytes((0x81, 0xFE, 0, 5)) + b"mask", wire.PROTOCOL_ERROR),
    "text that is none": (frame(TEXT, b"\xff\xfe"), wire.NOT_UTF8),
    "text that ends in the middle": (frame(TEXT, "ä".encode()[:1]), wire.NOT_UTF8),
    "half of a surrogate": (frame(TEXT, b"\xed\xa0\x80"), wire.NOT_UTF8),
    "a close of one octet": (frame(CLOSE, b"\x03"), wire.PROTOCOL_ERROR),
    "a reason that is no text": (frame(CLOSE, b"\x03\xe8\xff"), wire.NOT_UTF8),
    **{
        f"a close with {code}": (close(code), wire.PROTOCOL_ERROR)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535)
    },
}


@pytest.mark.parametrize(("octets", "code"), BROKEN.values(), ids=BROKEN)
def test_what_no_client_may_send_ends_it(octets, code):
    assert violation(octets)[0] == code
    # The messages before it come, and it is the same when every octet comes alone.
    reader = reader_of(frame(TEXT, b"before"))
    assert reader.next() == "before"

    def one_by_one():
        for octet in octets:
            reader.feed(bytes([octet]))
            everything(reader)

    with pytest.raises(WebSocketViolation):
        one_by_one()


@pytest.mark.parametrize(
    "octets",
    [b"\xff\xff\xff", deflated(b"abc")[:-1] + b"\x07", b"\x03\x00garbage behind the last block"],
    ids=["nonsense", "a bad block", "more behind the end"],
)
def test_what_cannot_be_inflated_ends_it(octets):
    assert violation(frame(BINARY, octets, bits=4), deflates=True)[0] == wire.NOT_UTF8


def test_a_last_block_may_end_a_compressed_message():
    work = zlib.compressobj(wbits=-15)
    ended = work.compress(b"hello") + work.flush(zlib.Z_FINISH) + b"\x00"
    assert everything(reader_of(frame(TEXT, ended, bits=4), deflates=True)) == ["hello"]


def test_a_sign_of_life_between_compressed_fragments_changes_nothing():
    octets = deflated(b"abcdefgh" * 50)
    sent = frame(TEXT, octets[:5], bits=4, fin=False) + frame(PING, b"?") + frame(CONTINUATION, octets[5:])
    assert everything(reader_of(sent, deflates=True)) == [Ping(b"?"), "abcdefgh" * 50]


def test_closes_and_pongs():
    assert everything(reader_of(frame(PONG, b"x") + frame(CLOSE))) == [Pong(b"x"), Closing(wire.NO_CODE, "")]
    for code in (1000, 1001, 1003, 1007, 1011, 1012, 1014, 3000, 4999):
        assert everything(reader_of(close(code, "bye ä"))) == [Closing(code, "bye ä")]
    for reason in ("ä" * 100, "x" * 500, "\ud800"):
        [made] = frames_of(wire.close_frame(1011, reason))
        assert made.data[:2] == b"\x03\xf3"
        assert reason.encode(errors="replace").startswith(made.data[2:])
    [made] = frames_of(wire.close_frame(wire.NO_CODE))
    assert made.data == b""


@given(st.binary(max_size=200), st.booleans())
def test_any_octets_are_read_or_refused(octets, deflates):
    reader = reader_of(deflates=deflates)
    code = wire.NORMAL
    try:
        for at in range(0, len(octets), 7):
            reader.feed(octets[at : at + 7])
            if any(isinstance(one, Closing) for one in everything(reader)):
                break
    except WebSocketViolation as found:
        code = found.code
    assert wire.may_close_with(code)


OFFERS = {
    "permessage-deflate": Deflate(),
    "permessage-deflate; client_max_window_bits": Deflate(),
    "foo, Permessage-Deflate; server_max_window_bits=10": Deflate(10, said=True),
    'permessage-deflate; server_max_window_bits="12"; client_max_window_bits=9': Deflate(12, said=True),
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover": Deflate(),
    "permessage-deflate; server_max_window_bits=8": None,
    "permessage-deflate; server_max_window_bits=8, permessage-deflate": Deflate(),
    "permessage-deflate; server_max_window_bits": None,
    "permessage-deflate; server_max_window_bits=16": None,
    "permessage-deflate; server_max_window_bits=٣": None,
    "permessage-deflate; server_no_context_takeover=1": None,
    "permessage-deflate; client_max_window_bits=7": None,
    "permessage-deflate; client_max_window_bits; client_max_window_bits": None,
    "permessage-deflate; level=9": None,
    "x-webkit-deflate-frame": None,
    "": None,
}


@pytest.mark.parametrize(("offer", "expected"), OFFERS.items())
def test_what_becomes_of_an_offer(offer, expected):
    assert agreed([offer]) == expected
    if expected is not None:
        assert f"server_max_window_bits={expected.window_bits}" in expected.answer or not expected.said


@given(st.text(alphabet='permsagdflt-; ,=01_"', max_size=60))
def test_any_offer_is_met_or_passed_over(offer):
    agreed([offer])


@pytest.mark.parametrize("bits", range(9, 16))
def test_what_is_compressed_fits_the_window_that_the_client_asked_for(bits):
    message = bytes(range(100)) * 256
    made = Deflate(bits).compress(message)
    assert made is not None
    work = zlib.decompressobj(-bits)
    assert work.decompress(made + b"\0\0\xff\xff") == message
    inflation = Inflation()
    assert (inflation.push(made, 50_000) or b"") + (inflation.finish(50_000) or b"") == message


def test_what_gains_nothing_is_sent_as_it_is():
    noise = random.Random(1).randbytes(5000)
    assert Deflate().compress(noise) is None
    assert Deflate().compress(b"a" * 100) is None
    assert Deflate().compress(b"a" * 5000) is not None
    assert Deflate().compress(b"a" * (1 << 20)) is None  # would hold the others


def test_a_large_message_lies_in_memory_that_goes_back_to_the_system():
    reader = WebSocketReader(max_message_bytes=8 << 20)
    pieces = [_masked_zeros(kind) for kind in (BINARY, *[CONTINUATION] * 63)]
    for _ in range(2):  # the first one makes what every message needs
        tracemalloc.start()
        for piece in pieces:
            reader.feed(piece)
            assert reader.next() is Part.READ
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert reader.held_bytes == 4 << 20
        assert held < 2 << 20  # of Python's own heap: what came last, not all of it
        reader.feed(frame(CONTINUATION, b"end"))
        assert reader.next() == bytes(4 << 20) + b"end"


def _masked_zeros(kind: int) -> bytes:
    """A frame of 64 KiB, of a message that goes on, which masking leaves as it is."""
    return struct.pack("!BBQ4s", kind, 0x80 | 127, 64 << 10, bytes(4)) + bytes(64 << 10)

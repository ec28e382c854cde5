"""What a process writes becomes lines, bounded in length and number."""

from hypothesis import given
from hypothesis import strategies as st

from trilith.service.command.output import OutputLines


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=30), max_size=20), st.data())
def test_pieces_cut_anywhere_are_the_same_lines(lines, data):
    octets = "".join(f"{line}\n" for line in lines).encode()
    output, found, at = OutputLines(), [], 0
    while at < len(octets):
        size = data.draw(st.integers(1, len(octets) - at))
        found += output.push(octets[at : at + size], 0.0)
        at += size
    assert found + output.end(0.0) == [line.rstrip() for line in lines if line.rstrip()]


def test_a_line_without_an_end_takes_no_memory():
    output = OutputLines()
    for _ in range(100):
        assert output.push(b"x" * 10_000, 0.0) == []
    [line] = output.push(b"\n", 0.0)
    assert line == "x" * 4096 + " ... (cut)"


def test_too_many_lines_are_counted():
    output = OutputLines()
    assert len(output.push(b"a\n" * 5000, 0.0)) == 1000
    [line] = output.push(b"b\n", 1.0)
    assert line == "b (before it 4000 lines were left out)"
    assert output.last[-1] == "b"


def test_the_last_line_needs_no_end():
    output = OutputLines()
    assert output.push(b"one\ntw", 0.0) == ["one"]
    assert output.end(0.0) == ["tw"]
    assert output.end(0.0) == []


def test_what_is_no_text_is_shown_all_the_same():
    assert OutputLines().push(b"\xff\xfe ok\n", 0.0) == ["\ufffd\ufffd ok"]

"""The page runner itself: what is wrong in a page is found, and nothing is skipped."""

from __future__ import annotations

import pytest
from page_blocks import PageError, Use, read_blocks
from page_output import json_matches, text_matches
from page_runner import PageRunner


def run(text, folder):
    PageRunner("page.md", folder, folder, 0).run(read_blocks(text, "page.md"))


def fenced(info, *lines):
    title = info.partition('title="')[2].removesuffix('"')
    return "\n".join([*([f"`{title}`", ""] if title else []), f"```{info}", *lines, "```", ""])


def test_blocks_are_files_commands_and_their_output(tmp_path):
    run(
        fenced('python title="lib/seven.py"', "SEVEN = 7")
        + fenced("python", "from lib.seven import SEVEN", "print({'seven': SEVEN}, 8000)")
        + fenced("text", "{'seven': 7} 8000")
        + fenced("sh", "x=3", "# a comment", "cat lib/seven.py; echo \\", "  $x")
        + fenced("text", "SEVEN = ...", "3"),
        tmp_path,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (fenced("python", "print(1)") + fenced("text", "2"), "this was printed:\n1"),
        (fenced("python", "print('[1, 2]')") + fenced("json", "[1]"), "this was printed"),
        (fenced("python", "raise ValueError(12)"), "ValueError: 12"),
        (fenced("sh", "false", "true"), "exit status 1"),
        (fenced("sh", "trilith serve nowhere"), "there is no folder and no module"),
        (fenced('text title="../x"', "a"), "lies in its folder"),
    ],
)
def test_what_is_wrong_is_found(text, problem, tmp_path):
    with pytest.raises(PageError, match=problem.replace("[", r"\[")):
        run(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        fenced("yaml", "a: 1"),
        fenced("", "a"),
        fenced("python file=a.py", "a"),
        fenced("json", "[]"),
        fenced('text title="a.txt"', "a") + fenced("text", "a"),
        "  " + fenced("python", "1"),
        "~~~python\n1\n~~~\n",
        "```python\n1\n",
        '```python title="a.py"\n1\n```\n',
        '`b.py`\n\n```python title="a.py"\n1\n```\n',
    ],
)
def test_no_block_is_skipped_in_silence(text):
    with pytest.raises(PageError, match="page:"):
        read_blocks(text, "page")


def test_a_block_that_is_not_run_says_why():
    [block] = read_blocks("<!-- not run: needs root -->\n" + fenced("sh", "reboot"), "page")
    assert (block.use, block.detail) == (Use.NOT_RUN, "needs root")


def test_output_is_compared_by_its_words():
    assert text_matches("a  b ... d\n\nend", "a b c\nc d\n\nend\n")
    assert not text_matches("a ... d", "a b")
    assert json_matches('{"a": [1, "..."]}', '{"a":[1,{"b":2}]}')
    assert not json_matches('{"a": 1}', '{"a": 1, "b": 2}')
    assert not json_matches("1", "true")
    assert not json_matches("1", "")

"""The code blocks of a Markdown page, and what each of them is for. Pure.

    `app.py`                     the name of the file that the block below it is: GitHub shows no titles
    ```python title="app.py"     any language with a title: a file of that name
    ```python                    run by a fresh interpreter, in the page's folder
    ```sh                        run; `trilith serve ...` lives until the next one, or the page's end
    ```json or ```text           what the block before it prints; `...` stands for anything
    <!-- not run: REASON -->     on the line before a block: shown, not run

Rule: every block is one of these. Anything else is a `PageError`, so that no block is skipped in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})(?P<info>.*)$")
_INFO = re.compile(r'(?P<language>[a-z]+)(?: title="(?P<title>[^"]+)")?')
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+) -->")


class PageError(AssertionError):
    """A page is not as it must be; the message has its name and line."""


class Use(Enum):
    """What a block is for."""

    FILE = "file"
    PYTHON = "python"
    SHELL = "sh"
    EXPECTED_JSON = "json"
    EXPECTED_TEXT = "text"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. `line` is that of its first content line; `detail` its title, or why it is not run."""

    use: Use
    text: str
    line: int
    detail: str = ""


def read_blocks(text: str, name: str) -> list[Block]:
    """The blocks of a page, in order.

    Raises:
        PageError: a block has no use, or the fences do not match.
    """
    blocks: list[Block] = []
    lines = text.splitlines()
    before = ""
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            before = lines[at] if lines[at].strip() else before
            at += 1
            continue
        if fence["indent"] or fence["fence"] != "```":
            raise PageError(f"{name}:{at + 1}: a block's fence is ``` at the beginning of the line")
        end = next((n for n in range(at + 1, len(lines)) if lines[n] == "```"), None)
        if end is None:
            raise PageError(f"{name}:{at + 1}: the block does not end")
        content = "\n".join(lines[at + 1 : end]) + "\n"
        blocks.append(_block(fence["info"].strip(), content, before, f"{name}:{at + 1}", at + 2))
        _check_order(blocks, f"{name}:{at + 1}")
        before, at = "", end + 1
    return blocks


def _block(info: str, content: str, before: str, where: str, line: int) -> Block:
    marker = _NOT_RUN.fullmatch(before.strip())
    if marker is not None:
        return Block(use=Use.NOT_RUN, text=content, line=line, detail=marker["reason"])
    found = _INFO.fullmatch(info)
    if found is None:
        raise PageError(f'{where}: expected ```LANGUAGE or ```LANGUAGE title="FILE", got ```{info}')
    if found["title"]:
        if before.strip() != f"`{found['title']}`":
            raise PageError(f"{where}: above the block of a file stands its name alone: `{found['title']}`")
        return Block(use=Use.FILE, text=content, line=line, detail=found["title"])
    try:
        use = Use(found["language"])
    except ValueError:
        raise PageError(
            f"{where}: a block in {info!r} needs a title (it becomes that file) or `<!-- not run: reason -->` before it"
        ) from None
    return Block(use=use, text=content, line=line)


def _check_order(blocks: list[Block], where: str) -> None:
    if blocks[-1].use not in (Use.EXPECTED_JSON, Use.EXPECTED_TEXT):
        return
    if len(blocks) < 2 or blocks[-2].use not in (Use.PYTHON, Use.SHELL):
        raise PageError(f"{where}: an expected output follows the block that prints it")

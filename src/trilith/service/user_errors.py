"""What a user's code may raise: anything, and all of it is an error of that code and nothing else.

Rule: `exit()` in a method must not end its process, nor leave a call unanswered. A cancellation alone may mean us: it
    does when the task that runs the code was cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Final

USER_ERRORS: Final = BaseException


def from_outside() -> bool:
    """Whether this task was cancelled; else the code that it runs let a cancellation of its own escape."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

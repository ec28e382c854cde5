"""Which failures a person was told in full, so that the same traceback is not written for each replica. Pure.

Rule: what is known of a revision goes when the revision does: under `--reload` there is no end of them.
"""

from __future__ import annotations

from collections.abc import Collection


class SeenFailures:
    """Those of one server."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, str]] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def is_new(self, revision: int, line: str, *, live: Collection[int]) -> bool:
        """Notes a failure. False when the same one of the same revision was noted before.

        Args:
            revision: whose it is.
            line: what tells it from others.
            live: the revisions that may still start something; all others are forgotten.
        """
        kept = {*live, revision}
        self._seen = {each for each in self._seen if each[0] in kept}
        is_new = (revision, line) not in self._seen
        self._seen.add((revision, line))
        return is_new

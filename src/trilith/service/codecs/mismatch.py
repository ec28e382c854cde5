"""The error of a method whose result is not of the type that it declares."""

from __future__ import annotations


class ResultMismatch(TypeError):
    """A method returned something else than it declares; the message is a whole sentence, with the method's name."""

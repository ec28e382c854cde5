"""Bytes to values and back. Sans-I/O: no socket, no `async`, no thread in here."""

"""A log that nobody reads blocks nobody."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator

import pytest

from trilith.core.log_stream import LogStream, log_stream

LINE = "x" * 999 + "\n"


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Descriptors: one to read from, one to write to."""
    if request.param == "pipe":
        pair = os.pipe()
    else:
        left, right = socket.socketpair()
        pair = left.detach(), right.detach()
    yield pair
    for descriptor in pair:
        os.close(descriptor)


def read_until(descriptor: int, end: bytes) -> bytes:
    found = b""
    while not found.endswith(end):
        found += os.read(descriptor, 1 << 20)
    return found


def test_lines_go_out_at_once_and_in_order(ends: tuple[int, int]) -> None:
    reader, writer = ends
    with os.fdopen(writer, "w", closefd=False) as file:
        stream = log_stream(file)
        assert isinstance(stream, LogStream)
        stream.write("one\n")
        stream.write("two \N{SNOWMAN}\n")
    assert os.read(reader, 100) == "one\ntwo \N{SNOWMAN}\n".encode()
    assert os.get_blocking(writer)


def test_a_stopped_reader_stops_nobody_and_hears_what_it_missed(ends: tuple[int, int]) -> None:
    reader, writer = ends
    with os.fdopen(writer, "w", closefd=False) as file:
        stream = log_stream(file)
        for _ in range(3000):  # 3 MB: more than the kernel and we keep
            stream.write(LINE)
        found = read_until(reader, b"because nobody read it\n")
    *lines, last = found.decode().splitlines(keepends=True)
    assert set(lines) == {LINE}
    left_out = int(last.split()[1])
    assert left_out + len(lines) == 3000
    assert len(lines) > 1000
    stream.write("again\n")
    assert read_until(reader, b"\n") == b"again\n"


def test_threads_do_not_tear_lines() -> None:
    reader, writer = os.pipe()
    stream = LogStream(writer, lambda data: os.write(writer, data[:1500]))
    threads = [threading.Thread(target=lambda: [stream.write(LINE) for _ in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    found = b""
    while len(found) < 60 * len(LINE):
        found += os.read(reader, 1 << 20)
    for thread in threads:
        thread.join()
    assert set(found.decode().splitlines(keepends=True)) == {LINE}
    os.close(reader)
    os.close(writer)


def test_files_are_written_as_ever() -> None:
    with tempfile.TemporaryFile("w") as file:
        assert log_stream(file) is file


def test_a_process_whose_log_nobody_reads_goes_on_and_ends() -> None:
    source = """
import logging
from trilith.core.log_options import LogOptions
from trilith.core.logs import configure_logging
configure_logging(LogOptions())
for _ in range(300):
    logging.warning("x" * 1000)
print("got here")
"""
    reader, writer = os.pipe()
    try:
        done = subprocess.run([sys.executable, "-c", source], stdout=subprocess.PIPE, stderr=writer, timeout=60)
    finally:
        os.close(reader)
        os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"got here\n")

"""What outside may send, damaged at random: each reader takes it or refuses it in its own words, and nothing else.

The seeds are fixed, so that a failure comes again. CONTRIBUTING.md lists the readers and how many inputs each gets.
"""

from __future__ import annotations

import logging
import random
import re
from pathlib import Path

import pytest
from damaged_readers import READERS, archive_reader, yaml_reader

CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"


def damaged(sample, source, spice):
    """A sample with some octets overwritten, inserted, removed or said twice."""
    octets = bytearray(sample)
    for _ in range(source.choice((1, 1, 2, 3, 8))):
        at = source.randrange(len(octets) + 1)
        value = source.choice(spice) if source.random() < 0.7 else source.randrange(256)
        match source.randrange(4):
            case 0 if at < len(octets):
                octets[at] = value
            case 1:
                del octets[at : at + source.randrange(1, 9)]
            case 2:
                octets[at:at] = octets[at : at + source.randrange(1, 40)]
            case _:
                octets.insert(at, value)
    return bytes(octets)


def reader_of(reader, tmp_path):
    return reader.read(tmp_path) if reader.read in (yaml_reader, archive_reader) else reader.read


@pytest.fixture(autouse=True)
def quiet(caplog):
    """The parsers of forms and of pictures say of each that is none; a worker does not listen to them."""
    caplog.set_level(logging.ERROR, "python_multipart")
    caplog.set_level(logging.CRITICAL, "PIL")


def search(reader, read, inputs):
    source = random.Random(inputs)
    for number in range(inputs):
        octets = damaged(reader.samples[number % len(reader.samples)], source, reader.spice)
        try:
            read(octets)
        except reader.refusals:
            continue
        except Exception as error:
            raise AssertionError(f"input {number} of {reader.name}: {octets!r}") from error


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_samples_are_read(reader, tmp_path):
    for sample in reader.samples:
        reader_of(reader, tmp_path)(sample)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damaged(reader, tmp_path, capfd):
    search(reader, reader_of(reader, tmp_path), reader.inputs)
    assert capfd.readouterr().err == "", "who sends it does not get to write our log"


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damaged_at_length(reader, tmp_path):
    search(reader, reader_of(reader, tmp_path), reader.inputs_full)


def test_the_list_says_what_is_done():
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \| ([\d,]+) \|$", CONTRIBUTING.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {name: (int(few.replace(",", "")), int(many.replace(",", ""))) for name, few, many in rows}
    expected = {reader.name: (reader.inputs, reader.inputs_full) for reader in READERS}
    assert {name: listed.get(name) for name in expected} == expected

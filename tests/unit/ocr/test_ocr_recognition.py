from __future__ import annotations

import numpy as np
import pytest
import recognition
from hypothesis import given
from hypothesis import strategies as st
from lines import row_texts, to_lines
from recognition import Reading


def crop(width: int, height: int = 24, value: int = 255) -> np.ndarray:
    return np.full((height, width, 3), value, np.uint8)


def test_classes_are_blank_characters_and_space():
    assert recognition.classes({"character": "a\n\u2028\nb"}) == ("", "a", "\u2028", "b", " ")
    with pytest.raises(ValueError, match="character"):
        recognition.classes({"author": "x"})


@given(st.integers(1, 4000), st.integers(1, 200))
def test_widths_are_few_and_wide_enough(width: int, height: int):
    bucket = recognition.bucket_width(crop(width, height))
    assert bucket % 32 == 0
    assert 0 <= bucket - recognition.scaled_width(crop(width, height)) < 32


@given(st.lists(st.integers(1, 300), max_size=20), st.integers(1, 8))
def test_batches_hold_each_crop_once_and_widths_do_not_mix(widths: list[int], size: int):
    crops = [crop(width) for width in widths]
    groups = recognition.batches(crops, size)
    assert sorted(index for group in groups for index in group) == list(range(len(crops)))
    assert all(len(group) <= size for group in groups)
    buckets = [[recognition.bucket_width(crops[index]) for index in group] for group in groups]
    assert [bucket for group in buckets for bucket in group] == sorted(bucket for group in buckets for bucket in group)


def test_the_input_pads_on_the_right_with_grey():
    batch = recognition.to_input([crop(20), crop(50, value=0)])
    assert batch.shape == (2, 3, 48, 128)
    assert (batch[0, :, :, :40] == 1).all()
    assert (batch[0, :, :, 40:] == 0).all()
    assert (batch[1, :, :, :100] == -1).all()


def probabilities(*lines: list[int], classes: int = 4) -> np.ndarray:
    output = np.full((len(lines), max(map(len, lines)), classes), 0.1, np.float32)
    for number, line in enumerate(lines):
        for step, index in enumerate(line):
            output[number, step, index] = 0.8
    return output


def test_repeats_are_one_character_unless_a_blank_is_between_them():
    output = probabilities([1, 1, 0, 1, 2, 2], [0, 0, 0, 0, 0, 0], [3, 3, 3, 3, 3, 3])
    readings = recognition.from_output(*recognition.best_classes(output), ("", "a", "b", " "))
    assert [reading.text for reading in readings] == ["aab", "", " "]
    assert [reading.score for reading in readings] == pytest.approx([0.8, 0.0, 0.8])


@given(st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=5))
def test_decoding_agrees_with_the_definition(lines: list[list[int]]):
    characters = ("", "a", "b", " ")
    best, chance = recognition.best_classes(probabilities(*lines))
    for reading, line in zip(recognition.from_output(best, chance, characters), lines, strict=True):
        merged = [index for step, index in enumerate(line) if step == 0 or line[step - 1] != index]
        assert reading.text == "".join(characters[index] for index in merged)


def test_lines_come_in_reading_order():
    boxes = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    readings = [Reading(text=text, score=0.5) for text in ("c", "a", "b")]
    lines = to_lines([[1, 2], [0]], boxes, readings)
    assert [(line.text, line.row) for line in lines] == [("a", 0), ("b", 0), ("c", 1)]
    assert lines[2].box == [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, 7.0)]
    assert row_texts(lines) == ["a b", "c"]

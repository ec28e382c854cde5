from __future__ import annotations

import cv2
import detection
import numpy as np
import pytest
from crops import cut
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_the_model_sees_multiples_of_32_and_never_more_than_the_limit(height: int, width: int):
    high, wide = detection.input_size(height, width, 736)
    assert high % 32 == 0
    assert wide % 32 == 0
    assert 32 <= high <= 736
    assert 32 <= wide <= 736


def test_small_images_are_not_scaled_up():
    assert detection.input_size(191, 384, 736) == (192, 384)
    assert detection.input_size(1240, 1100, 736) == (736, 640)


def test_the_input_is_scaled_to_minus_one_to_one():
    image = np.zeros((64, 96, 3), np.uint8)
    image[:, :, 2] = 255
    batch = detection.to_input(image)
    assert batch.shape == (1, 3, 64, 96)
    assert batch.dtype == np.float32
    assert batch[0, 0].min() == batch[0, 0].max() == -1
    assert batch[0, 2].min() == batch[0, 2].max() == 1


def probability_map(*rectangles: tuple[tuple[float, float], tuple[float, float], float], value: float = 0.9):
    drawn = np.zeros((200, 300), np.float32)
    for rectangle in rectangles:
        cv2.fillPoly(drawn, [cv2.boxPoints(rectangle).astype(np.int32)], value)
    return drawn[None, None]


def test_a_core_becomes_a_box_grown_by_the_unclip_distance():
    boxes, scores = detection.from_output(probability_map(((150, 100), (100, 10), 0)), 400, 600)
    assert boxes.shape == (1, 4, 2)
    assert scores[0] == pytest.approx(0.9, abs=0.1)
    distance = 100 * 10 * 1.6 / (2 * 110)
    expected = np.array([[100 - distance, 95 - distance], [200 + distance, 105 + distance]]) * 2
    assert np.abs(boxes[0][[0, 2]] - expected).max() < 5


@pytest.mark.parametrize("degrees", [-20.0, 3.0, 15.0])
def test_turned_text_gives_a_turned_box(degrees: float):
    boxes, _ = detection.from_output(probability_map(((150, 100), (120, 12), degrees)), 200, 300)
    top = boxes[0][1] - boxes[0][0]
    assert np.degrees(np.arctan2(top[1], top[0])) == pytest.approx(degrees, abs=2)


def test_noise_and_doubt_are_left_out():
    speck = ((50, 50), (1, 1), 0)
    boxes, scores = detection.from_output(probability_map(speck), 200, 300)
    assert boxes.shape == (0, 4, 2)
    assert scores.shape == (0,)
    faint = probability_map(((150, 100), (100, 10), 0), value=0.4)
    assert len(detection.from_output(faint, 200, 300)[0]) == 0
    assert len(detection.from_output(faint, 200, 300, detection.DetectionSettings(box_threshold=0.3))[0]) == 1


def test_boxes_stay_inside_the_image():
    boxes, _ = detection.from_output(probability_map(((0, 0), (200, 40), 0), ((299, 199), (200, 40), 0)), 200, 300)
    assert boxes.min() >= 0
    assert (boxes.reshape(-1, 2) <= (299, 199)).all()


def test_a_crop_is_upright():
    page = np.full((200, 300, 3), 255, np.uint8)
    rectangle = ((150, 100), (120, 20), 10.0)
    cv2.fillPoly(page, [cv2.boxPoints(rectangle).astype(np.int32)], (0, 0, 0))
    boxes, _ = detection.from_output(probability_map(rectangle), 200, 300)
    crop = cut(page, boxes[0])
    assert crop.shape[1] > 2.5 * crop.shape[0]
    middle = crop.shape[0] // 2
    assert crop[middle, crop.shape[1] // 4 : -crop.shape[1] // 4].max() < 30, "one dark band along the middle"
    assert crop[0].min() > 200


def test_vertical_text_is_turned():
    crop = cut(np.zeros((200, 300, 3), np.uint8), np.array([[10, 10], [30, 10], [30, 150], [10, 150]], np.float32))
    assert crop.shape == (20, 140, 3)
    assert crop.flags.c_contiguous

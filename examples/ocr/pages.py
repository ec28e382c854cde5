"""Draws pages whose text is known: the ground truth of every accuracy and speed figure of this example.

A page is an invoice with a table. The same seed gives the same page, pixel for pixel, as long as one Pillow draws it.
Fonts are fetched and pinned like models, so that a machine without fonts draws the same page as one with many.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from geometry import Array
from PIL import Image, ImageDraw, ImageFont

from trilith.runtime.sources import Progress, resolve

_WHITE: Final = (255, 255, 255)
_INK: Final = (20, 20, 20)
_COLUMNS: Final = ("No", "Description", "Article", "Qty", "Price", "Amount")
_ITEMS: Final = (
    "Copper fitting 15mm",
    "USB-C cable (2m)",
    "Desk lamp, LED",
    "A4 paper 80g/m2",
    "Toner HP-26X",
    "Stapler No. 10",
    "Web hosting Q3",
    "Consulting hours",
    "Freight & handling",
    "Steel bolt M8x40",
    "Acrylic paint #12",
    "Router AX3000",
    "Air filter F7/G4",
    "Safety gloves XL",
    "Hydraulic oil ISO46",
    "Label roll 62mm",
    "Battery 9V 6LR61",
    "Cleaning service",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """A font file of a package. The DejaVu fonts: free to use, change and distribute (Bitstream Vera licence)."""

    source: str
    sha256: str

    def path(self, progress: Progress | None = None) -> Path:
        """The font's file, fetched on first use."""
        return resolve(self.source, sha256=self.sha256, progress=progress)


FACES: Final = {
    "sans": Face(
        source="pypi:rinoh-typeface-dejavusans==0.1.0#rinoh_typeface_dejavusans/DejaVuSans.ttf",
        sha256="7da195a74c55bef988d0d48f9508bd5d849425c1770dba5d7bfc6ce9ed848954",
    ),
    "serif": Face(
        source="pypi:rinoh-typeface-dejavuserif==0.1.3#rinoh_typeface_dejavuserif/DejaVuSerif.ttf",
        sha256="42d1edeb7952f31b1f96d767ed7030b08a39e0c372b0071641518864e2bffb51",
    ),
    "mono": Face(
        source="pypi:rinoh-typeface-dejavusansmono==0.1.0#rinoh_typeface_dejavusansmono/DejaVuSansMono.ttf",
        sha256="b4a6c3e4faab8773f4ff761d56451646409f29abedd68f05d38c2df667d3c582",
    ),
}
BUILT_IN_FACE: Final = "grotesque"  # Aileron, which Pillow carries inside itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a page looks.

    Attributes:
        face: `sans`, `serif`, `mono` or `grotesque`.
        size: height of the letters in pixels.
        rows: lines of the table.
        angle: degrees by which the page is turned counter-clockwise.
        noise: standard deviation of the grey noise that is added after a slight blur; 0 for a clean page.
        jpeg_quality: compress and expand the page once at this quality, or 0 not to.
        seed: of quantities, prices and noise.
    """

    face: str = "sans"
    size: int = 24
    rows: int = 18
    angle: float = 0.0
    noise: float = 0.0
    jpeg_quality: int = 0
    seed: int = 7


CLEAN: Final = Style()
STYLES: Final = {
    "clean": CLEAN,
    "small": replace(CLEAN, size=16),
    "noisy": replace(CLEAN, noise=18.0, jpeg_quality=50),
    "turned 3": replace(CLEAN, angle=3.0),
    "turned -7": replace(CLEAN, angle=-7.0, noise=8.0),
    "serif": replace(CLEAN, face="serif"),
    "mono": replace(CLEAN, face="mono", size=20),
    "grotesque": replace(CLEAN, face=BUILT_IN_FACE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A drawn page and what stands on it.

    Attributes:
        image: blue-green-red, uint8 [height, width, 3].
        lines: the text of each row, its cells joined by a space, top to bottom.
        boxes: the four corners of each cell, float32 [N, 4, 2], clockwise from the top left, in the order of reading.
    """

    image: Array
    lines: tuple[str, ...]
    boxes: Array

    def png(self) -> bytes:
        """The image as a PNG file."""
        return cv2.imencode(".png", self.image)[1].tobytes()


def invoice(style: Style = CLEAN, progress: Progress | None = None) -> Page:
    """Draws an invoice.

    Raises:
        KeyError: the style's face is not known.
        SetupError: its font cannot be fetched.
    """
    font = _font(style, progress)
    table = _table(style)
    unit = style.size
    width, height = round(51 * unit), round((len(table) * 2 + 3) * unit)
    picture = Image.new("RGB", (width, height), _WHITE)
    pen = ImageDraw.Draw(picture)
    boxes = []
    for number, row in enumerate(table):
        for place, text in zip(_places(len(row)), row, strict=True):
            at = (abs(place) * unit, (2 + 2 * number) * unit)
            anchor = "rs" if place < 0 else "ls"  # amounts end at their column, words begin at it
            pen.text(at, text, fill=_INK, font=font, anchor=anchor)
            left, top, right, bottom = pen.textbbox(at, text, font=font, anchor=anchor)
            boxes.append([[left, top], [right, top], [right, bottom], [left, bottom]])
    image = np.ascontiguousarray(np.asarray(picture)[:, :, ::-1])
    image, corners = _turned(image, np.array(boxes, np.float32), style.angle)
    return Page(image=_worn(image, style), lines=tuple(" ".join(row) for row in table), boxes=corners)


def _font(style: Style, progress: Progress | None) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    if style.face == BUILT_IN_FACE:
        return ImageFont.load_default(style.size)
    return ImageFont.truetype(str(FACES[style.face].path(progress)), style.size)


def _table(style: Style) -> list[tuple[str, ...]]:
    """The rows of text: two lines of heading, the table, the total."""
    chance = random.Random(style.seed)
    rows: list[tuple[str, ...]] = []
    total = 0.0
    for number in range(style.rows):
        quantity, price = chance.randint(1, 99), chance.randint(100, 99999) / 100
        amount = round(quantity * price, 2)
        total += amount
        article = f"SKU-{chance.randint(10000, 99999)}"
        item = _ITEMS[number % len(_ITEMS)]
        rows.append((f"{number + 1:02d}", item, article, str(quantity), f"{price:,.2f}", f"{amount:,.2f} EUR"))
    number, day = chance.randint(1000, 9999), chance.randint(10, 28)
    heading = [(f"Invoice INV-2026/{number}", f"Date 2026-11-{day}"), ("Northwind Trading Ltd", "Due within 30 days")]
    return [*heading, _COLUMNS, *rows, ("Total due", f"{total:,.2f} EUR")]


def _places(cells: int) -> tuple[float, ...]:
    """Where the cells of a row stand, in units of the letter size; negative: the cell ends there."""
    return (2.0, 5.0, 20.0, -31.0, -39.0, -49.0) if cells == len(_COLUMNS) else (2.0, -49.0)


def _turned(image: Array, boxes: Array, angle: float) -> tuple[Array, Array]:
    """Image and boxes, turned round the centre; the image grows so that nothing is cut off."""
    if not angle:
        return image, boxes
    height, width = image.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.0)
    cosine, sine = abs(matrix[0, 0]), abs(matrix[0, 1])
    wide, high = round(width * cosine + height * sine), round(width * sine + height * cosine)
    matrix[:, 2] += ((wide - width) / 2, (high - height) / 2)
    turned = cv2.warpAffine(image, matrix, (wide, high), flags=cv2.INTER_CUBIC, borderValue=_WHITE)
    return turned, (boxes @ matrix[:, :2].T + matrix[:, 2]).astype(np.float32)


def _worn(image: Array, style: Style) -> Array:
    """The image as a cheap scanner would give it."""
    if style.noise:
        grain = np.random.default_rng(style.seed).normal(0.0, style.noise, image.shape)
        image = np.clip(cv2.GaussianBlur(image, (3, 3), 0) + grain, 0, 255).astype(np.uint8)
    if style.jpeg_quality:
        _, packed = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, style.jpeg_quality])
        image = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR))
    return image

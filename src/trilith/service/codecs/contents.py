"""What a file is: by what its sender says, and by its first bytes.

Rule 1: both must fit what is declared. A name alone decides only where neither says anything.
Rule 2: only formats that begin with a mark of their own are recognised; of others the sender's word is taken.
"""

from __future__ import annotations

import mimetypes
from typing import Final

from trilith.errors import UnsupportedMediaType
from trilith.service.codecs import media
from trilith.service.constraints import ContentType

_VAGUE: Final = frozenset({"", media.BINARY, "binary/octet-stream", "application/unknown", media.URLENCODED})
_MARKS: Final[tuple[tuple[int, bytes, tuple[str, ...]], ...]] = (
    (0, b"\x89PNG\r\n\x1a\n", ("image/png", "image/apng")),
    (0, b"\xff\xd8\xff", ("image/jpeg", "image/jpg", "image/pjpeg")),
    (0, b"GIF87a", ("image/gif",)),
    (0, b"GIF89a", ("image/gif",)),
    (0, b"BM", ("image/bmp", "image/x-ms-bmp", "image/x-bmp")),
    (0, b"II*\x00", ("image/tiff",)),
    (0, b"MM\x00*", ("image/tiff",)),
    (8, b"WEBP", ("image/webp",)),
    (8, b"WAVE", ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")),
    (8, b"AVI ", ("video/x-msvideo", "video/avi", "video/vnd.avi")),
    (0, b"fLaC", ("audio/flac", "audio/x-flac")),
    (0, b"OggS", ("audio/ogg", "video/ogg", "application/ogg", "audio/opus", "audio/vorbis")),
    (0, b"ID3", ("audio/mpeg", "audio/mp3", "audio/aac")),
    (0, b"FORM", ("audio/aiff", "audio/x-aiff")),
    (0, b"\x1aE\xdf\xa3", ("video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska")),
    (4, b"ftyp", ("video/mp4", "audio/mp4", "audio/x-m4a", "audio/m4a", "video/quicktime", "image/heic", "image/avif")),
    (0, b"%PDF-", ("application/pdf",)),
    (0, b"PK\x03\x04", ("application/zip", "application/*")),
    (0, b"\x1f\x8b", ("application/gzip", "application/x-gzip", "application/*")),
    (0, b"PAR1", media.PARQUETS),
    (0, b"\x93NUMPY", (media.NPY,)),
    (0, b"\x7fELF", ("application/x-executable", "application/x-elf")),
    (0, b"MZ", ("application/vnd.microsoft.portable-executable", "application/x-msdownload")),
)
_RIFF: Final = frozenset({b"WEBP", b"WAVE", b"AVI "})
# Types of which every file begins with a mark above: one without it is something else.
_MARKED: Final = frozenset(
    kind for _, mark, kinds in _MARKS if mark not in (b"ID3", b"FORM", b"MZ", b"ftyp") for kind in kinds
) - {"application/*", "audio/aac", "audio/opus", "audio/vorbis"}


def recognised(body: bytes | memoryview) -> tuple[str, ...]:
    """The media types that a file may be of by its first bytes, the usual one first; none when they say nothing."""
    head = bytes(body[:16])
    for at, mark, kinds in _MARKS:
        if head[at : at + len(mark)] == mark and (mark not in _RIFF or head[:4] == b"RIFF"):
            return kinds
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:  # a frame of MPEG audio, layer III or II
        return ("audio/mpeg", "audio/mp3")
    return ()


def check_content(
    wanted: ContentType,
    body: bytes | memoryview,
    *,
    said: str = "",
    filename: str | None = None,
    silent: bool = False,
) -> str:
    """The media type of a file, when it is a wanted one.

    Args:
        wanted: what is declared.
        body: the file.
        said: the content type that its sender gave, with parameters; "" for none.
        filename: that its sender gave.
        silent: whether its sender had no way to say what it is.

    Raises:
        UnsupportedMediaType: it is of another type, or says one and holds another, or of none that is known.
    """
    kind = media.media_type(said)
    found = recognised(body)
    if kind.endswith("/*"):  # what a client says that knows no more
        kind = ""
    if kind not in _VAGUE and not wanted.fits(kind):
        raise UnsupportedMediaType(f"expected a file of the type {wanted}, got {kind}")
    if found and not any(wanted.fits(one) or _contains(one, wanted) for one in found):
        says = f"says that it is {kind} and " if kind not in _VAGUE else ""
        raise UnsupportedMediaType(f"expected a file of the type {wanted}; this one {says}holds {found[0]}")
    if kind not in _VAGUE:
        if kind in _MARKED and kind not in found:
            holds = found[0] if found else "something else"
            raise UnsupportedMediaType(f"the file says that it is {kind}, and holds {holds}")
        return kind
    exact = next((one for one in found if wanted.fits(one) and "*" not in one), "")
    if exact:
        return exact
    guessed = mimetypes.guess_type(filename)[0] if filename else None
    if guessed is not None and wanted.fits(guessed) and guessed not in _MARKED:
        return guessed
    if "*/*" in wanted.patterns or (silent and not _MARKED.issuperset(wanted.patterns)):
        return media.BINARY
    raise UnsupportedMediaType(
        f"expected a file of the type {wanted}; neither its content type nor its content says so"
    )


def _contains(one: str, wanted: ContentType) -> bool:
    """Whether a format that others are made of (`application/*` of a zip file) may be a wanted one."""
    return one.endswith("/*") and any(pattern.startswith(one[:-1]) for pattern in wanted.patterns)

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.errors import InvalidConfig, TrilithError, UnknownReference
from trilith.runtime.sources.reference import LocalFile, WheelFile, check_sha256, parse_source


def test_a_pypi_source_has_three_parts():
    parsed = parse_source("pypi:rapidocr==3.10.0#rapidocr/models/a.onnx")
    assert parsed == WheelFile(name="rapidocr", version="3.10.0", path="rapidocr/models/a.onnx")
    assert parsed.requirement == "rapidocr==3.10.0"
    assert parsed.file_name == "a.onnx"


@pytest.mark.parametrize(
    "rest",
    [
        "rapidocr",
        "rapidocr==3.10.0",
        "rapidocr>=3#a",
        "rapidocr==3.*#a",
        "--index-url==1#a",
        "a==--pre#a",
        "rapidocr==3.10.0#",
        "rapidocr==3.10.0#/etc/passwd",
        "rapidocr==3.10.0#../a",
        "rapidocr==3.10.0#a/../../b",
        "rapidocr==3.10.0#a\\b",
        "rapidocr==3.10.0#a//b",
        "rapidocr @ file:///x==1#a",
        "rapidocr==1;os_name#a",
    ],
)
def test_a_pypi_source_of_another_form_is_refused_with_the_form(rest: str):
    with pytest.raises(InvalidConfig, match=r"NAME==VERSION#|relative"):
        parse_source(f"pypi:{rest}")


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("a/b.onnx", "a/b.onnx"),
        ("/a/b.onnx", "/a/b.onnx"),
        ("file:a/b.onnx", "a/b.onnx"),
        ("file:/a/b.onnx", "/a/b.onnx"),
        ("file:///a/b%20c.onnx", "/a/b c.onnx"),
        ("file://localhost/a", "/a"),
        ("file:a:b", "a:b"),
    ],
)
def test_local_sources(source: str, path: str):
    assert parse_source(source) == LocalFile(path=Path(path))


@pytest.mark.parametrize("source", ["file:", "file://elsewhere/a", "file://"])
def test_wrong_file_sources_are_refused(source: str):
    with pytest.raises(InvalidConfig):
        parse_source(source)


@pytest.mark.parametrize("source", ["hf:org/model", "s3://bucket/key", "https://example.org/x.onnx", ""])
def test_an_unknown_scheme_lists_the_known_ones(source: str):
    with pytest.raises(UnknownReference, match=r"pypi:NAME==VERSION#path/in/wheel, file:PATH, PATH"):
        parse_source(source)


@given(st.text())
def test_any_text_is_read_or_refused(text: str):
    for source in (text, f"pypi:{text}", f"pypi:a==1#{text}", f"file:{text}"):
        try:
            parsed = parse_source(source)
        except TrilithError:
            continue
        if isinstance(parsed, WheelFile):
            assert ".." not in parsed.path.split("/")
            assert not parsed.path.startswith("/")
            assert not parsed.requirement.startswith("-")


def test_a_hash_is_64_hexadecimal_digits():
    assert check_sha256("x", "AB" * 32) == "ab" * 32
    for wrong in ("", "ab", "g" * 64, "a" * 63):
        with pytest.raises(InvalidConfig, match="64 hexadecimal digits"):
            check_sha256("x", wrong)

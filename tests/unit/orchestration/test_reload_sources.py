"""Which files `--reload` looks at."""

import pytest

from trilith.orchestration.engine.reload import is_source


@pytest.mark.parametrize(
    ("name", "include", "expected"),
    [
        ("app.py", (), True),
        ("ocr.proto", (), True),
        ("page.html", (), False),
        ("page.html", ("*.html",), True),
        ("page.HTML", ("*.html",), False),
        (".env", ("*.yaml", ".env"), True),
        ("app.pyc", (), False),
    ],
)
def test_sources(name, include, expected):
    assert is_source(name, include) is expected

"""What `trilith call TARGET` names."""

import pytest

from trilith.cli.call_place import DEFAULT_URL, Place, read_place
from trilith.errors import InvalidConfig

RUNNING = {"http://127.0.0.1:1": "app.py:Ocr", "http://127.0.0.1:2": "shop.app:Cart", "http://127.0.0.1:3": "models/"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://host:8000/read", Place(url="http://host:8000", method="read")),
        ("https://host/v1/read", Place(url="https://host", method="v1/read")),
        ("http://host:8000", Place(url="http://host:8000")),
        ("localhost:8000/read", Place(url="http://localhost:8000", method="read")),
        ("app:Ocr/read", Place(target="app:Ocr", method="read")),
        ("shop.app:Cart", Place(target="shop.app:Cart")),
        ("path/to/app.py:Ocr/read", Place(target="path/to/app.py:Ocr", method="read")),
        ("path/to/app.py/read", Place(target="path/to/app.py", method="read")),
        ("app.py", Place(target="app.py")),
        ("Ocr/read", Place(url="http://127.0.0.1:1", service="Ocr", method="read")),
        ("app/Ocr/read", Place(url="http://127.0.0.1:1", service="Ocr", method="read")),
        ("app/Cart/add", Place(url="http://127.0.0.1:2", service="Cart", method="add")),
        ("Cart", Place(url="http://127.0.0.1:2", method="Cart")),
    ],
)
def test_forms(text, expected):
    assert read_place(text, "", RUNNING) == expected


def test_a_url_of_ones_own():
    assert read_place("Ocr/read", "http://far:9", RUNNING) == Place(url="http://far:9", service="Ocr", method="read")
    assert read_place("read", "http://far:9", {}) == Place(url="http://far:9", method="read")
    assert read_place("read", "", {}) == Place(url=DEFAULT_URL, method="read")
    assert read_place("Other/read", "", {}) == Place(url=DEFAULT_URL, service="Other", method="read")


@pytest.mark.parametrize(
    ("text", "url", "said"),
    [
        ("read", "", "several servers run here: app.py:Ocr at http://127.0.0.1:1, shop.app:Cart"),
        ("Other/read", "", "no server that runs here has Other; there run app.py:Ocr at http://127.0.0.1:1, shop"),
        ("other/Ocr/read", "", "no server that runs here has other/Ocr; there run"),
        ("http://host/read", "http://far", "is an address already"),
        ("app:Ocr/read", "http://far", "runs in this process"),
        ("http://host/read?x=1", "", "arguments stand beside the address"),
        ("a/b/c/d", "", "a target is"),
        ("", "", "a target is"),
        ("Ocr//read", "", "a target is"),
    ],
)
def test_what_is_none(text, url, said):
    with pytest.raises(InvalidConfig, match=said):
        read_place(text, url, RUNNING)


def test_of_two_servers_of_one_name_none_is_chosen():
    running = {"http://127.0.0.1:1": "app.py:Page", "http://127.0.0.1:2": "app.py:Page"}
    with pytest.raises(InvalidConfig, match=r"app.py:Page at http://127.0.0.1:1, app.py:Page at http://127.0.0.1:2"):
        read_place("Page/read", "", running)

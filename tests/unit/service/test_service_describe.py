"""Descriptions and OpenAPI documents: plain, complete, valid."""

import dataclasses
import datetime
import enum
import json
import pathlib
import re
import shutil
import subprocess
from typing import Literal

import jsonschema
import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from openapi_spec_validator import OpenAPIV31SpecValidator
from PIL import Image
from pydantic import BaseModel

import trilith
from trilith.errors import InvalidConfig
from trilith.service import AppDescription, describe, docs_html, openapi_document


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Line:
    text: str
    box: NDArray[np.float32]


class Page(BaseModel):
    number: int
    colour: Colour = Colour.RED
    children: list["Page"] = []


def other_line() -> type:
    @dataclasses.dataclass
    class Line:
        width: int

    return Line


def another_line() -> type:
    @dataclasses.dataclass
    class Line:
        name: str

    return Line


Other = other_line()
Another = another_line()


@trilith.service(replicas=2, timeout_s=30)
class Recognizer:
    model = trilith.model("ocr-rec", placement="replica")

    @trilith.api(batch=trilith.Batch(max_size=4), idempotent=True)
    async def read(self, crops: list[np.ndarray]) -> list[str]:
        return []


@trilith.service
class Ocr:
    """Reads pages."""

    recognizer = trilith.depends(Recognizer)

    @trilith.api
    async def read(self, image: Image.Image, dpi: int = 300) -> list[Line]:
        """Reads one page.

        Slowly.
        """
        return []

    @trilith.api(timeout_s=5)
    def page(self, page: Page, /) -> Page:
        return page

    @trilith.api
    def other(self, line: Other, when: datetime.datetime | None = None) -> dict[str, Another]:
        return {}

    @trilith.api
    def files(self, files: list[pathlib.Path], note: str = "") -> bytes:
        return b""

    @trilith.api(route="/sum")
    def total(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x

    @trilith.api
    def __call__(self) -> None:
        return None


@trilith.service
def predict(x: int = 3) -> int:
    return x


DESCRIPTION = describe(Ocr)
DOCUMENT = openapi_document(DESCRIPTION)


def test_the_description_survives_json():
    raw = msgspec.json.encode(DESCRIPTION)
    assert msgspec.json.decode(raw, type=AppDescription) == DESCRIPTION


def test_services_and_methods():
    assert [service.name for service in DESCRIPTION.services] == ["Ocr", "Recognizer"]
    root = DESCRIPTION.root
    assert root.dependencies == {"recognizer": "Recognizer"}
    assert root.documentation == "Reads pages."
    recognizer = DESCRIPTION.service("Recognizer")
    assert recognizer is not None
    assert (recognizer.replicas, recognizer.concurrency) == (2, 64)
    assert [(use.attribute, use.reference, use.placement) for use in recognizer.models] == [
        ("model", "ocr-rec", "replica")
    ]
    read = recognizer.method("read")
    assert read is not None
    assert read.batch is not None
    assert (read.batch.max_size, read.batch.max_wait_ms, read.idempotent, read.timeout_s) == (4, None, True, 30)
    assert read.parameters[0].value.kind == "array"
    assert not read.parameters[0].value.many
    assert DESCRIPTION.service("nothing") is None


def test_routes_are_the_roots():
    assert {route for method in DESCRIPTION.root.methods for route in method.routes} == {
        "/read",
        "/page",
        "/other",
        "/files",
        "/sum",
        "/",
    }
    assert DESCRIPTION.route("/sum").name == "total"
    assert DESCRIPTION.route("/").name == "__call__"
    assert DESCRIPTION.route("/nothing") is None


def test_content_types():
    accepts = {method.name: method.accepts for method in DESCRIPTION.root.methods}
    assert accepts["read"] == ["image/*", "application/json", "multipart/form-data"]
    assert accepts["page"] == ["application/json"]
    assert accepts["files"] == ["multipart/form-data"]
    assert accepts["total"] == ["application/json", "application/x-npy", "multipart/form-data"]
    assert DESCRIPTION.route("/sum").offers == ["application/json", "application/x-npy"]


@pytest.mark.parametrize("service", [Ocr, predict])
def test_the_openapi_document_is_valid(service):
    OpenAPIV31SpecValidator(openapi_document(describe(service))).validate()


def test_clashing_names_are_told_apart():
    names = [name for name in DESCRIPTION.definitions if "Line" in name]
    assert len(names) == 2


def test_every_reference_resolves():
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)):
        assert name in DOCUMENT["components"]["schemas"]


def schema_of(path: str, media: str = "application/json") -> dict:
    schema = DOCUMENT["paths"][path]["post"]["requestBody"]["content"][media]["schema"]
    return {**schema, "components": DOCUMENT["components"]}


def test_bodies_match_their_schemas():
    jsonschema.validate({"number": 1, "children": [{"number": 2}]}, schema_of("/page"))
    jsonschema.validate({"line": {"width": 3}, "when": None}, schema_of("/other"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"line": {"width": 3}, "extra": 1}, schema_of("/other"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema_of("/other"))
    assert schema_of("/read")["properties"]["dpi"]["default"] == 300
    assert schema_of("/read", "multipart/form-data")["properties"]["image"]["format"] == "binary"
    assert schema_of("/files", "multipart/form-data")["properties"]["files"]["type"] == "array"


@trilith.service
class Crops:
    @trilith.api
    async def crop(self, image: Image.Image, left: int = 0, name: str | None = None, box: list[int] = [0]) -> int:  # noqa: B006
        return 0

    @trilith.api
    async def scale(self, x: NDArray[np.float32], page: Page | None = None) -> int:
        return 0

    @trilith.api
    async def plain(self, a: int, b: str = "b") -> int:
        return 0


def test_what_the_query_string_gives_beside_a_whole_body_is_listed():
    document = openapi_document(describe(Crops))
    OpenAPIV31SpecValidator(document).validate()
    listed = {
        path: {
            one["name"]: next(iter(one.get("content", {"text": None})))
            for one in item["post"].get("parameters", [])
            if one["in"] == "query" and not one.get("required")
        }
        for path, item in document["paths"].items()
    }
    assert listed == {
        "/crop": {"left": "text", "name": "text", "box": "application/json"},
        "/scale": {"page": "application/json"},
        "/plain": {},
    }
    left, name, _ = document["paths"]["/crop"]["post"]["parameters"]
    assert left["schema"]["default"] == 0
    assert "`image` itself" in name["description"]


def test_documentation_becomes_summary_and_description():
    operation = DOCUMENT["paths"]["/read"]["post"]
    assert (operation["summary"], operation["description"]) == ("Reads one page.", "Slowly.")
    assert set(operation["responses"]) == {"200", "400", "406", "413", "415", "429", "500", "503", "504"}
    assert "requestBody" not in DOCUMENT["paths"]["/"]["post"]


def test_a_function_is_at_its_name_and_at_the_root():
    paths = openapi_document(describe(predict))["paths"]
    assert set(paths) == {"/predict", "/"}
    assert paths["/"]["post"]["x-trilith"]["alias"]


def test_two_services_of_one_name_are_refused():
    def make() -> type:
        @trilith.service(name="Same")
        class Some:
            @trilith.api
            def run(self) -> int:
                return 1

        return Some

    inner = make()

    @trilith.service(name="Same")
    class Root:
        other = trilith.depends(inner)

        @trilith.api
        def run(self) -> int:
            return 1

    with pytest.raises(InvalidConfig, match="two services have the name 'Same'"):
        describe(Root)


def test_a_circle_is_refused():
    @trilith.service
    class A:
        @trilith.api
        def run(self) -> int:
            return 1

    @trilith.service
    class B:
        a = trilith.depends(A)

        @trilith.api
        def run(self) -> int:
            return 1

    trilith.service.spec_of(A).dependencies["b"] = trilith.depends(B)  # no decorator can make one
    with pytest.raises(InvalidConfig, match="in a circle: A -> B -> A"):
        describe(A)


def test_a_type_that_json_cannot_hold_is_named():
    class Strange:
        pass

    @trilith.service
    def run(x: Strange) -> int:
        return 1

    with pytest.raises(InvalidConfig, match="run: parameter 'x': Strange cannot be read from JSON"):
        describe(run)


def test_the_page_is_self_contained():
    page = docs_html("<Ocr>").decode()
    assert "&lt;Ocr&gt;" in page
    assert not re.findall(r"""(?:src|href)=["'](?!data:|openapi\.json)[^"']""", page)
    assert "http://" not in page
    assert "https://" not in page
    assert "{{" not in page


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's own function")
def test_the_page_begins_with_the_form_where_a_file_and_more_are_asked_for():
    page = docs_html("Ocr").decode()
    function = re.search(r"^function firstChoice.*?^}", page, re.M | re.S)[0]
    form, json_type = "multipart/form-data", "application/json"
    image, number = {"kind": "image"}, {"kind": "json"}
    cases = [
        ([["image/*", json_type, form], [image, number]], form),
        ([["image/*", json_type, form], [image]], "image/*"),
        ([[json_type, form], [{"kind": "file"}, image]], form),
        ([[json_type], [number, number]], json_type),
        ([[json_type, form], [{"kind": "array"}, number]], json_type),
    ]
    calls = json.dumps([arguments for arguments, _ in cases])
    script = f'const FORM = "{form}"; {function}; console.log(JSON.stringify({calls}.map(a => firstChoice(...a))))'
    found = subprocess.run(["node", "-e", script], capture_output=True, check=True, text=True)
    assert json.loads(found.stdout) == [expected for _, expected in cases]


class Mode(enum.Enum):
    FAST = "fast"
    EXACT = "exact"


@trilith.service
class Form:
    @trilith.api
    def read(
        self,
        image: bytes,
        title: str,
        mode: Mode,
        size: int,
        language: str = "de",
        note: str | None = None,
        level: Literal[1, 2] = 2,
        loud: bool = False,
        order: Mode | None = None,
        factor: float = 0.5,
        mixed: int | str = 3,
    ) -> str:
        return title


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's own functions")
def test_the_fields_of_a_form_take_text_as_it_is_and_offer_what_may_be_chosen():
    page = docs_html("Form").decode()
    names = ("resolve", "example", "asked", "firstValue", "fieldJson")
    functions = "\n".join(re.search(rf"^function {name}\(.*?^}}", page, re.M | re.S)[0] for name in names)
    document = openapi_document(describe(Form))
    parameters = document["paths"]["/read"]["post"]["x-trilith"]["parameters"][1:]
    typed = {"title": 'say "hi"', "mode": '"exact"', "size": "7", "language": "", "note": "", "factor": " "}
    script = f"""
        const definitions = {json.dumps(document["components"]["schemas"])}; {functions}
        const typed = {json.dumps(typed)};
        console.log(JSON.stringify({json.dumps(parameters)}.map(p => {{
            const how = asked(p.schema), first = firstValue(how, p);
            return [p.name, how, first, fieldJson(how, p.name in typed ? typed[p.name] : first, p)];
        }})));
    """
    found = subprocess.run(["node", "-e", script], capture_output=True, check=True, text=True)
    assert {name: rest for name, *rest in json.loads(found.stdout)} == {
        "title": [{"text": True}, "text", '"say \\"hi\\""'],
        "mode": [{"choices": ["fast", "exact"]}, '"fast"', '"exact"'],
        "size": [{}, "1", "7"],
        "language": [{"text": True}, "de", '""'],
        "note": [{"text": True}, "", None],
        "level": [{"choices": [1, 2]}, "2", "2"],
        "loud": [{"choices": [True, False]}, "false", "false"],
        "order": [{"choices": ["fast", "exact", None]}, "null", "null"],
        "factor": [{}, "0.5", None],
        "mixed": [{}, "3", "3"],
    }

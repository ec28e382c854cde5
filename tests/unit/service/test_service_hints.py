"""What is said to who writes the words and classes of other frameworks."""

from __future__ import annotations

import bdb
import copy
import dataclasses
import inspect
import logging
import pickle
from typing import Any

import fastapi
import pydantic
import pytest

import trilith
from trilith.errors import InvalidConfig
from trilith.service.codecs.mismatch import ResultMismatch
from trilith.service.codecs.result import ResultEncoder
from trilith.service.command.options import Command
from trilith.service.command.running import unsaid_port
from trilith.service.failure import explain
from trilith.service.kinds import read_type
from trilith.service.signature import ParameterType
from trilith.service.streams.items import ItemDecoder


class Out(pydantic.BaseModel):
    label: str
    score: float


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("declared", "returned", "expected"),
    [
        (Out, {"label": "a", "score": 1.5}, b'{"label":"a","score":1.5}'),
        (list[Out], [{"label": "a", "score": 1.5}, Out(label="b", score=0.5)], None),
        (Point, {"x": 1}, b'{"x":1,"y":0}'),
        (Out | None, {"label": "a", "score": 1.5}, b'{"label":"a","score":1.5}'),
    ],
)
def test_the_dict_of_a_model_is_an_answer(declared: Any, returned: Any, expected: bytes | None) -> None:
    _, [body] = ResultEncoder(read_type(declared), "Ocr.read").encode(returned)
    if expected is not None:
        assert bytes(body) == expected
    assert pydantic.TypeAdapter(declared).validate_json(bytes(body)) == pydantic.TypeAdapter(declared).validate_python(
        returned
    )


def test_a_dict_of_another_model_says_what_is_missing() -> None:
    with pytest.raises(ResultMismatch, match=r"Ocr.read returned dict and declares Out: .*Field required.*\$\.score"):
        ResultEncoder(read_type(Out), "Ocr.read").encode({"label": "a"})


def test_a_wrong_result_has_no_traceback_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ResultMismatch) as raised:
        ResultEncoder(read_type(int), "Ocr.read").encode(None)
    own = raised.value.with_traceback(raised.tb.tb_next)  # without this test's frame
    with caplog.at_level(logging.ERROR, "trilith.service"):
        told = explain(own, "Ocr.read", "r1", debug=True)
    assert caplog.records[-1].exc_info is None
    assert (
        caplog.records[-1].getMessage()
        == "Ocr.read returned NoneType and declares int: " + told.message.partition(": ")[2] + " (request r1)"
    )


def test_a_wrong_result_shows_the_frames_of_its_author(caplog: pytest.LogCaptureFixture) -> None:
    class Reading(pydantic.BaseModel):
        @pydantic.computed_field  # type: ignore[prop-decorator]
        @property
        def broken(self) -> int:
            raise RuntimeError("here")

    with pytest.raises(ResultMismatch) as raised:
        ResultEncoder(read_type(Reading), "Ocr.read").encode(Reading())
    with caplog.at_level(logging.ERROR, "trilith.service"):
        explain(raised.value, "Ocr.read", "r1", debug=False)
    assert caplog.records[-1].exc_info is not None


@pytest.mark.parametrize(
    ("raised", "hint"),
    [
        (bdb.BdbQuit(), "raised BdbQuit; breakpoint() needs a terminal"),
        (fastapi.HTTPException(418), "raise one of trilith.errors"),
    ],
)
def test_exceptions_that_mean_something_elsewhere(
    raised: Exception, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "trilith.service"):
        explain(raised, "Ocr.read", "r1", debug=False)
    assert hint in caplog.text


@pytest.mark.parametrize("annotation", [fastapi.UploadFile, list[fastapi.UploadFile], fastapi.UploadFile | None])
def test_an_upload_of_fastapi_is_refused_at_the_start(annotation: Any) -> None:
    def read(file: Any) -> int:
        return 1

    read.__annotations__["file"] = annotation
    with pytest.raises(InvalidConfig, match=r"'file' is a UploadFile of fastapi.*pathlib\.Path"):
        trilith.service(read)


@pytest.mark.parametrize("route", ["/items/{id}", "/items/<id>", "/items/:id"])
def test_a_route_has_no_parameters(route: str) -> None:
    with pytest.raises(InvalidConfig, match=r"without parameters.*@trilith\.mount"):
        trilith.api(route=route)


def test_a_route_of_odd_characters() -> None:
    with pytest.raises(InvalidConfig, match="a path of letters"):
        trilith.api(route="/a b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"replica": 2}, "; did you mean replicas?"),
        ({"gpu": 1, "workers": 2}, "; models and services run on the CPU; the word here is replicas"),
        ({"gpu": 1, "workers": 2}, "no option 'gpu' and 'workers'; it has name, replicas"),
    ],
)
def test_unknown_options_are_all_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        trilith.service(**given)(Out)
    assert said in raised.value.message


def test_get_routes_are_mounted() -> None:
    with pytest.raises(InvalidConfig, match=r"no option 'method'; .*; methods answer POST.*docs/mounts\.md"):
        trilith.api(method="GET")  # type: ignore[call-overload]


def test_the_words_of_others_for_a_batch() -> None:
    with pytest.raises(
        InvalidConfig, match=r"trilith\.Batch has no option 'max_batch_size'; .*; the word here is max_size"
    ):
        trilith.Batch(max_batch_size=4)  # type: ignore[call-arg]
    with pytest.raises(InvalidConfig, match=r"takes its options by name: max_size, max_wait_ms"):
        trilith.Batch(4)  # type: ignore[misc]


def test_a_batch_stays_a_plain_value() -> None:
    batch = trilith.Batch(max_size=4)
    assert copy.deepcopy(batch) == pickle.loads(pickle.dumps(batch)) == batch
    assert dataclasses.replace(batch, max_size=5).max_size == 5
    assert list(inspect.signature(trilith.Batch).parameters) == ["max_size", "max_wait_ms"]


@pytest.mark.parametrize(
    ("command", "doubtful"),
    [
        (Command(["serve"]), True),
        (Command(["serve", "--port={port}"]), False),
        (Command(["serve"], port=8123), False),
        (Command(["serve"], environment={"LISTEN": "0:{port}"}), False),
    ],
)
def test_a_command_that_is_not_told_its_port(command: Command, doubtful: bool) -> None:
    said = unsaid_port(command, command.arguments, "http://127.0.0.1:1/")
    assert ("asked at http://127.0.0.1:1/" in said and "{port}" in said) == doubtful


def test_depends_takes_the_class_itself() -> None:
    with pytest.raises(InvalidConfig, match=r"not its name: write trilith\.depends\(Ocr\), got 'Ocr'"):
        trilith.depends("Ocr")  # type: ignore[call-overload]


def test_an_error_without_a_message_says_what_its_class_is_for() -> None:
    class Gone(trilith.errors.NotFound):
        pass

    assert trilith.errors.NotFound().message == "There is no such route, service, method or version."
    assert str(Gone()) == trilith.errors.NotFound().message
    assert trilith.errors.NotFound("").message == ""


@pytest.mark.parametrize("annotation", [int, Out])
def test_an_item_that_is_no_json_is_told_as_an_item(annotation: Any) -> None:
    decoder = ItemDecoder(ParameterType(name="words", value=read_type(annotation)), "Ocr.read")
    decoder.prepare()
    with pytest.raises(trilith.errors.InvalidInput) as raised:
        decoder.decode(("application/json", (b"{",)), 2)
    assert raised.value.message.startswith("item 2: Ocr.read: words")
    assert "body" not in raised.value.message

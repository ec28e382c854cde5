"""What a user did wrong, in sentences that say what to do."""

import asyncio
import re
import subprocess
import sys

import numpy as np
import pytest

import trilith
from trilith.errors import InvalidConfig
from trilith.service import describe, load_target
from trilith.service.codecs.checks import unwritten_part


def test_a_file_with_relative_imports_is_told_to_be_served_as_its_package(tmp_path):
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "app.py").write_text("from .other import X\n")
    with pytest.raises(InvalidConfig, match=re.escape(f"in {tmp_path} say `trilith serve mypkg.app:A`")):
        load_target("mypkg/app.py:A", folder=tmp_path)


class Strange:
    pass


def test_a_type_that_cannot_be_read_is_named_in_our_own_words():
    @trilith.service
    def run(x: list[dict[str, Strange]]) -> int:
        return 1

    with pytest.raises(InvalidConfig, match=r"Strange is none of the types that can\. Make it a dataclass") as told:
        describe(run)
    assert "pydantic-core" not in told.value.message
    assert "arbitrary_types" not in told.value.message
    assert told.value.__cause__ is None  # the agent shows the traceback of a cause


def test_the_part_of_a_result_that_is_no_json_is_named_with_its_path():
    loop: list[object] = [1]
    loop.append(loop)
    found = unwritten_part({"a": [1, {"b": np.zeros(3)}]})
    assert found == "ndarray at `$.a[1].b` is no JSON type; `.tolist()` makes it one"
    assert unwritten_part([{"x": {1, 2}}]) == "set at `$[0].x` is no JSON type"
    assert unwritten_part({"a": [np.float32(1), "x", None, loop]}) == ""


def test_a_result_says_where_it_is_wrong(call_once, caplog):
    @trilith.service
    async def ret() -> dict:
        return {"boxes": [np.zeros(3)]}

    with pytest.raises(Exception, match="failed"):
        call_once(ret, "ret")
    assert "ndarray at `$.boxes[0]` is no JSON type" in caplog.text


def test_a_caller_with_less_time_is_told_its_own_limit(serve):
    import time

    @trilith.service(timeout_s=60)
    class Slow:
        @trilith.api
        async def wait(self) -> int:
            await asyncio.sleep(60)
            return 1

    async def scenario(hosted):
        call, future = hosted.make("wait", deadline=time.monotonic() + 0.2)
        hosted.host.handle(call)
        expected = r"did not answer within the 0\.[12]\d* s that it had left when it began"
        with pytest.raises(Exception, match=expected) as told:
            await future
        assert "of its limit of 60 s: its caller gave it less time" in told.value.message

    serve(Slow, scenario)


def test_the_front_door_lists_public_names_alone():
    code = "import trilith, trilith.service; print(sorted(set(dir(trilith)) - set(trilith.__all__)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['__version__']"

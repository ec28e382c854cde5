"""What must be awaited says so, however it is used."""

import operator

import pytest

import trilith
from trilith.service import spec_of
from trilith.service.bridge import Awaited
from trilith.service.codecs.result import ResultEncoder


async def answer():
    return 3


USES = {
    "1 + x": lambda x: 1 + x,
    "x - 1": lambda x: x - 1,
    "x * x": lambda x: x * x,
    "x / 2": lambda x: x / 2,
    "x > 1": lambda x: x > 1,
    "1 < x": lambda x: x > 1,
    "-x": operator.neg,
    "not x": operator.not_,
    "int(x)": int,
    "float(x)": float,
    "round(x)": round,
    "len(x)": len,
    "list(x)": list,
    "x[0]": lambda x: x[0],
    "1 in x": lambda x: 1 in x,
    "f'{x}'": lambda x: f"{x}",
    "range(x)": range,
    "x.upper()": lambda x: x.upper(),
}


@pytest.mark.parametrize("use", USES)
def test_a_use_without_await_is_named(use):
    with pytest.raises((TypeError, AttributeError), match=r"the call of Other.f was made on an event loop.*`await` it"):
        USES[use](Awaited(answer(), "Other.f"))


@pytest.mark.parametrize("wrap", [lambda: Awaited(answer(), "Other.f"), answer])
def test_a_result_that_was_not_awaited_is_named(wrap):
    def forgot() -> int: ...

    encoder = ResultEncoder(spec_of(trilith.service(forgot)).methods["forgot"].signature.result, "A.forgot")
    for write in (encoder.encode, encoder.encode_native):
        with pytest.raises(
            TypeError, match=r"A.forgot declares int and returned what must be awaited: `await` is missing"
        ):
            write(wrap())


def test_a_call_that_is_shown_says_what_to_do():
    call = Awaited(answer(), "Other.f")
    assert repr(call) == "<the call of Other.f: not awaited yet, `await` it for its result>"
    call.close()


def test_python_names_the_call_that_was_never_awaited():
    call = Awaited(answer(), "Other.f")
    with pytest.warns(RuntimeWarning, match=r"coroutine 'Other.f' was never awaited"):
        del call

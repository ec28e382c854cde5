"""`import trilith` costs nothing, and gives what it promises."""

import subprocess
import sys

import pytest

import trilith

HEAVY = ("numpy", "pydantic", "PIL", "httpx", "onnxruntime", "tritonclient", "asyncio", "uvloop", "msgspec")


def loaded_after(program: str) -> set[str]:
    program += f"\nimport sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(eval(done.stdout))


def test_importing_loads_nothing_heavy():
    assert loaded_after("import trilith") == set()


def test_declaring_and_hosting_a_plain_service_loads_no_heavy_library():
    program = """
import trilith
@trilith.service
def double(x: int) -> int:
    return 2 * x
from trilith.service import ServiceHost, InProcessResolver
import asyncio
asyncio.run(ServiceHost(double, InProcessResolver()).start())
"""
    assert loaded_after(program) <= {"asyncio", "msgspec"}


@pytest.mark.parametrize("name", trilith.__all__)
def test_every_name_is_there(name):
    assert getattr(trilith, name) is not None
    assert name in dir(trilith)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match=r"has no attribute 'servize'; it has .*service"):
        trilith.servize  # noqa: B018


@pytest.mark.parametrize("name", ["serve", "run"])
def test_a_start_from_a_program_is_told_of_the_command(name):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': .*`trilith serve module:Name`"):
        getattr(trilith, name)


def test_the_package_service_is_the_decorator_too():
    import trilith.service as package

    assert trilith.service is package
    assert package.describe
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018
    assert package.ModelSignature.__name__ == "ModelSignature"

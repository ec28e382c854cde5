"""What would have to wait for the collector of circles: found by collecting once, keeping everything that was found."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def no_circles() -> Iterator[None]:
    """Fails when what happens in its block leaves an object of Trilith, or long octets, to the collector.

    What is alive at the end must be alive for a reason: drop what the test itself holds before the block ends.
    """
    gc.collect()
    gc.freeze()  # what is there already is not walked over again, here or in the tests after this one
    gc.disable()
    found: list[Any] = []
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    ours = sorted({f"{type(each).__module__}.{type(each).__qualname__}" for each in found if _is_ours(each)})
    octets = [len(held) for each in found for held in gc.get_referents(each) if isinstance(held, bytes | bytearray)]
    long = sum(size for size in octets if size > 1000)
    found.clear()
    assert (ours, long) == ([], 0), f"circles with {ours} and {long} octets of bodies"


def _is_ours(thing: Any) -> bool:
    return type(thing).__module__.startswith("trilith.")

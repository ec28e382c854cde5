"""The suite: each service, its known floor and stage, and how to change what its advice names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.diagnose.models import write_computing, write_streaming, write_waiting

SERVICES = Path(__file__).parent / "services.py"
_THREADS = "session: {{intra_op_threads: {threads}, spinning: {spinning}}}\ninstances: {instances}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One service with a known bottleneck.

    Attributes:
        name: of the case.
        floor: the floor that a verdict must name.
        stage: the stage that it must name.
        service: the class in `services.py`; "" for models alone.
        model: the model that is called directly; "" for services.
        write: writes its models into a folder, given what was changed ("" for nothing).
        options: further ones of `trilith serve`, given what was changed.
        beside: a model that another client asks for meanwhile; "" for none.
        helps: whether a change of what the advice names can be measured.
    """

    name: str
    floor: str
    stage: str
    service: str = ""
    model: str = ""
    write: Callable[[Path, str], None] | None = None
    options: Callable[[str], tuple[str, ...]] = lambda _: ()
    beside: str = ""
    helps: bool = True


def _number(value: str, otherwise: int) -> int:
    return int(value) if value.isdecimal() else otherwise


def _threads(threads: int, instances: int, *, spinning: bool = False) -> str:
    return _THREADS.format(threads=threads, instances=instances, spinning=str(spinning).lower())


def _cold(folder: Path, _: str) -> None:
    for name in ("cold-one", "cold-two"):
        write_computing(folder, name, layers=2, width=2048, rows=1)  # quick to run, slow to load


CASES = (
    Case(
        name="model compute",
        floor="model",
        stage="model-compute",
        model="computing",
        write=lambda folder, value: write_computing(
            folder, "computing", layers=20 if value else 40, config=_threads(1, 2)
        ),
    ),
    Case(
        name="memory bandwidth",
        floor="model",
        stage="memory-bandwidth",
        model="streaming",
        write=lambda folder, value: write_streaming(
            folder, "streaming", megabytes=48 if value else 96, config=_threads(1, 2)
        ),
    ),
    Case(
        name="batch too small",
        floor="model",
        stage="batch-too-small",
        model="waiting",
        write=lambda folder, value: write_waiting(
            folder, "waiting", largest=_number(value, 4), fixed_s=0.020, each_s=0.0025
        ),
    ),
    Case(
        name="batch too large",
        floor="model",
        stage="batch-too-large",
        model="waiting",
        write=lambda folder, value: write_waiting(
            folder, "waiting", largest=_number(value, 16), fixed_s=0.010, each_s=0.002, square_s=0.0008
        ),
    ),
    Case(name="window too long", floor="scale", stage="window-too-long", service="WindowTooLong"),
    Case(
        name="one instance too few",
        floor="scale",
        stage="too-few-instances",
        model="waiting",
        write=lambda folder, value: write_waiting(
            folder, "waiting", largest=1, fixed_s=0.020, each_s=0.0, instances=_number(value, 1)
        ),
    ),
    Case(
        name="threads oversubscribed",
        floor="model",
        stage="threads-oversubscribed",
        model="computing",
        write=lambda folder, value: write_computing(
            folder, "computing", layers=40, config=_threads(_number(value, 4), 2, spinning=not value)
        ),
    ),
    Case(name="held by the interpreter's lock", floor="python", stage="interpreter-lock", service="HeldByTheLock"),
    Case(name="large arrays as JSON", floor="python", stage="encoding", service="LargeJson"),
    Case(name="blocking call in async", floor="python", stage="blocking-async", service="BlockingAsync"),
    Case(name="serial calls", floor="python", stage="serial-calls", service="SerialCalls"),
    Case(name="one hot replica", floor="scale", stage="hot-replica", service="HotReplica"),
    Case(name="too few replicas", floor="scale", stage="too-few-replicas", service="TooFewReplicas"),
    Case(
        name="cold starts",
        floor="scale",
        stage="cold-starts",
        model="cold-one",
        beside="cold-two",
        write=_cold,
        options=lambda value: ("--load-on-demand", "--max-loaded-models", "2" if value else "1"),
    ),
    Case(name="bound by the client", floor="client", stage="client", helps=False),
    Case(name="nothing", floor="nothing", stage="room", service="Room", helps=False),
)

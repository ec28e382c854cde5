"""What `--backend-config` says: Triton's settings of its backends, from a command line.

    onnxruntime,default-max-batch-size=8    of one backend
    default-max-batch-size=8                of all of them

Rule: a setting that would change what a server does is honoured or refused by name; one that only tunes what is not
    there is told to be without effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from trilith.errors import InvalidConfig

OPTION: Final = "--backend-config"
_LARGEST_BATCH: Final = (1 << 31) - 1
_MOST_DIGITS: Final = 10
_ROWS: Final = "default-max-batch-size"
_SIZED_BY_FILES: Final = ("", "onnxruntime", "pytorch", "openvino")  # the batch sizes of others are said, or are fixed
_SEGMENTS: Final = "large tensors travel in segments that are made when they are needed"
_IDLE: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("", "min-compute-capability"): "models run on the CPU",
        ("python", "shm-default-byte-size"): _SEGMENTS,
        ("python", "shm-growth-byte-size"): _SEGMENTS,
        ("python", "shm-region-prefix-name"): _SEGMENTS,
        ("python", "stub-timeout-seconds"): "--model-load-timeout-s says how long a process may be silent at its start",
        ("python", "thread-pool-size"): "calls of models have no pool of threads",
    }
)
_SESSION_THREADS: Final = (
    "each session has threads of its own: say INTRA_OP_THREAD_COUNT and INTER_OP_THREAD_COUNT under `parameters` of a "
    "model's configuration"
)
_ELSEWHERE: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("", "backend-directory"): "here it is --backend-directory",
        ("python", _ROWS): "a model.py says its batch size, in its configuration or in auto_complete_config",
        **{
            ("onnxruntime", name): _SESSION_THREADS
            for name in (
                *("enable-global-threadpool", "intra_op_thread_count", "inter_op_thread_count"),
                *("intra_op_allow_spinning", "inter_op_allow_spinning", "allow_intra_op_spinning"),
            )
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendConfig:
    """What was said.

    Attributes:
        default_rows: most rows in a batch of a model whose file batches and whose configuration does not say, by
            backend; "" for all others.
        idle: what has no effect, each with why, as sentences for the log.
    """

    default_rows: Mapping[str, int] = field(default_factory=dict)
    idle: tuple[str, ...] = ()

    def rows_of(self, backend: str) -> int | None:
        """The batch size of a backend's models that say none; None where nothing was said."""
        return self.default_rows.get(backend, self.default_rows.get("") if backend in _SIZED_BY_FILES else None)


def read_backend_config(settings: Iterable[str]) -> BackendConfig:
    """Settings as they were typed, checked. What is said twice must be the same.

    Raises:
        InvalidConfig: one is malformed, out of its range, said in two ways, or is not served here.
    """
    rows: dict[str, int] = {}
    idle: list[str] = []
    for setting in settings:
        backend, name, value = _split(setting)
        why = _IDLE.get((backend, name))
        if why is not None:
            idle.append(f"{OPTION} {setting} has no effect: {why}")
        elif name == _ROWS and backend in _SIZED_BY_FILES:
            count = int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else -1
            if not 0 <= count <= _LARGEST_BATCH:
                raise InvalidConfig(f"{OPTION} {setting}: must be an integer from 0 to {_LARGEST_BATCH}, got {value!r}")
            if rows.setdefault(backend, count) != count:
                raise InvalidConfig(f"{OPTION} {setting}: was said before, to be {rows[backend]}; say it once")
        else:
            raise InvalidConfig(f"{OPTION} {setting}: {_refusal(backend, name)}")
    return BackendConfig(default_rows=rows, idle=tuple(idle))


def _split(setting: str) -> tuple[str, str, str]:
    head, equals, value = setting.partition("=")
    backend, comma, name = head.rpartition(",")
    if not (name and equals and value) or (comma and not backend):
        raise InvalidConfig(
            f"{OPTION} option format is '<backend name>,<setting>=<value>', or '<setting>=<value>' for all backends. "
            f"Got {setting}"
        )
    return backend, name, value


def _refusal(backend: str, name: str) -> str:
    where = _ELSEWHERE.get((backend, name))
    if where is not None:
        return where
    known = [key for of, key in _IDLE if of == backend]
    if backend in _SIZED_BY_FILES:
        known.append(_ROWS)
    of = f"the backend {backend!r} has" if backend else "there is"
    return (
        f"{of} no setting {name!r} here" + (f"; there is {', '.join(known)}" if known else "") + ". What concerns one "
        "model stands in its configuration, under `parameters`"
    )

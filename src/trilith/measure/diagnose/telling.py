"""What would tell two explanations apart. Pure."""

from __future__ import annotations

from typing import Final

_BY_PAIR: Final = {
    frozenset(
        {"too-few-replicas", "interpreter-lock"}
    ): "The process's use of processors: one full core is the lock, an idle one is too few places.",
    frozenset({"too-few-replicas", "hot-replica"}): "`/status` under load: calls answered by each replica.",
    frozenset(
        {"too-few-instances", "model-compute"}
    ): "One instance more: throughput rises when it was too few, and does not when the cores are full.",
    frozenset({"model-compute", "memory-bandwidth"}): "Half the threads: a model that waits for memory loses little.",
    frozenset(
        {"model-compute", "threads-oversubscribed"}
    ): "One thread an instance: processor time a request falls when they were too many.",
    frozenset(
        {"encoding", "interpreter-lock"}
    ): "The same request as application/x-npy: a lock that the method holds stays, the text does not.",
    frozenset(
        {"blocking-async", "too-few-replicas"}
    ): "The method as a plain `def`: when the loop was blocked, throughput rises without another replica.",
    frozenset(
        {"batch-too-small", "too-few-instances"}
    ): "A batch of twice the size: it takes less than twice as long when batches were too small.",
    frozenset(
        {"batch-too-small", "too-few-replicas"}
    ): "A batch of twice the size: it takes less than twice as long when batches were too small.",
    frozenset({"batch-too-large", "too-few-replicas"}): "A smaller batch: throughput rises when they were too large.",
    frozenset(
        {"serial-calls", "room"}
    ): "Whether latency or throughput matters to you: there is room for more requests, but"
    " each takes longer than it must.",
    frozenset(
        {"window-too-long", "room"}
    ): "Whether latency or throughput matters to you: there is room for more requests, but"
    " each takes longer than it must.",
    frozenset({"client", "room"}): "A second generator on another machine.",
}

_BY_STAGE: Final = {
    "model-compute": "A model of half the size: throughput nearly doubles.",
    "memory-bandwidth": "A narrower type: time falls as the bytes do.",
    "threads-oversubscribed": "One thread an instance: processor time a request falls.",
    "batch-too-small": "A larger batch, and what it takes.",
    "batch-too-large": "A smaller batch, and what an item of it takes.",
    "window-too-long": "No window: one request alone then takes as long as it computes.",
    "too-few-instances": "One instance more.",
    "too-few-replicas": "One replica more.",
    "hot-replica": "Another process in the slow one's place.",
    "cold-starts": "The same run with everything loaded.",
    "interpreter-lock": "A second process.",
    "encoding": "The same arrays as application/x-npy.",
    "blocking-async": "The method as a plain `def`.",
    "serial-calls": "The calls at the same time (`asyncio.gather`).",
    "python-compute": "A profile of the method (`py-spy`, `perf`).",
    "client": "A second generator on another machine.",
    "room": "A larger load (--max-load).",
}


def what_tells_apart(stage: str, other: str) -> str:
    """What to look at, or to try, for one stage against another ("" for any)."""
    return _BY_PAIR.get(frozenset({stage, other})) or _BY_STAGE.get(stage, "")

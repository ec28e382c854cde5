"""One configuration measured: a copy with its settings under load. Doer.

Rule 1: one copy runs at a time. The next measurement of the same configuration finds it warm.
Rule 2: what goes wrong with a configuration is an observation of it; what goes wrong with the load is an error.
Rule 3: a configuration that may change what is answered is checked before it is measured.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import uvloop

from trilith.errors import SetupError, TrilithError
from trilith.measure.bench import BenchPlan, preflight, run_bench
from trilith.measure.copies import CopyFailed, CopyPlan, RunningCopy, running_copy
from trilith.measure.load import Body, Target
from trilith.measure.load.probe import example_body
from trilith.measure.results import LevelResult
from trilith.measure.tune.objective import Figures, Observation
from trilith.measure.tune.space import Configuration, Space

_ANSWER_WITHIN_S: Final = 10.0
_MOST_SAID: Final = 300
_REQUESTS: Final = 4.0  # as long as so many, one after the other, is measured at least

Check = Callable[[RunningCopy], str]
"""Looks whether a copy answers what it should. Returns why not, or ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent to each copy.

    Attributes:
        path: of the endpoint, with a query if it has one.
        method: HTTP method.
        bodies: sent in turn; empty for requests without a body.
        makes_body: whether one is made by what the copy's /openapi.json says; without such a thing a GET is sent.
        headers: of every request.
        concurrency: the levels at which each configuration is measured.
        duration_s: seconds of a measurement of the usual length, at each level; more where requests take very long.
        warmup_s: seconds of load before, at each level.
        timeout_s: seconds after which a request counts as failed.
    """

    path: str
    method: str = "POST"
    bodies: tuple[Body, ...] = ()
    makes_body: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    concurrency: tuple[int, ...] = (8,)
    duration_s: float = 6.0
    warmup_s: float = 1.0
    timeout_s: float = 30.0

    def plan(self, copy: RunningCopy, share: float) -> BenchPlan:
        """How a copy is measured."""
        return BenchPlan(
            target=Target.parse(copy.url(self.path)),
            method=self.method,
            bodies=self.bodies,
            headers=self.headers,
            concurrency=self.concurrency,
            duration_s=self.duration_s * share,
            warmup_s=self.warmup_s,
            timeout_s=self.timeout_s,
            server_pid=copy.pid,
        )


class _BatchStatistics(msgspec.Struct, frozen=True):
    class _Time(msgspec.Struct, frozen=True):
        count: int
        ns: int

    batch_size: int
    compute_infer: _Time


class _ModelStatistics(msgspec.Struct, frozen=True):
    name: str
    batch_stats: list[_BatchStatistics] = []


class _Statistics(msgspec.Struct, frozen=True):
    model_stats: list[_ModelStatistics]


@dataclass(slots=True)
class Bench:
    """Measures configurations, one after the other. Close it at the end; it ends the copy that runs.

    Attributes:
        space: of the configurations.
        copy: how a copy is started; its settings are added to.
        load: what it gets.
        check: for configurations that may change what is answered; None where none may.
    """

    space: Space
    copy: CopyPlan
    load: Load
    check: Check | None = None
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _running: tuple[Configuration, RunningCopy] | None = None
    _checked: dict[Configuration, str] = field(default_factory=dict)
    _is_first: bool = True
    _least_s: float = 0.0

    def measure(self, configuration: Configuration, share: float) -> Observation:
        """What a measurement brings.

        Args:
            configuration: of the space.
            share: for how long, as a multiple of the usual time.

        Raises:
            SetupError: the very first copy does not start or answer: the load is wrong, not the configuration.
            KeyboardInterrupt: it was stopped.
        """
        try:
            copy, ready_s = self._start(configuration)
            if self._is_first:
                self._begin(copy)
            failure = self._failed_check(configuration, copy)
            if failure:
                return Observation(share=share, failure=failure)
            return self._measure(copy, share, ready_s)
        except CopyFailed as error:
            if self._is_first:
                raise
            return Observation(share=share, failure=f"does not start: {_cause(error)}")
        except ProcessLookupError:
            self.close()
            return Observation(share=share, failure="ended while it was measured")

    def close(self) -> None:
        """Ends the copy that runs."""
        self._running = None
        self._stack.close()

    def _begin(self, copy: RunningCopy) -> None:
        """Looks at the load, with the first copy."""
        if self.load.makes_body and not self.load.bodies:
            example = example_body(Target.parse(copy.url(self.load.path)))
            self.load = replace(self.load, method="GET") if example is None else replace(self.load, bodies=(example,))
        preflight(self.load.plan(copy, 1.0))  # the first request is slower than those after it
        begun = time.monotonic()
        preflight(self.load.plan(copy, 1.0))
        self._least_s = _REQUESTS * (time.monotonic() - begun)
        self._is_first = False

    def _start(self, configuration: Configuration) -> tuple[RunningCopy, float]:
        if self._running is not None and self._running[0] == configuration:
            return self._running[1], 0.0
        self.close()
        settings = {**self.copy.settings, **self.space.settings(configuration)}
        plan = CopyPlan(
            target=self.copy.target,
            settings=settings,
            options=self.copy.options,
            folder=self.copy.folder,
            ready_within_s=self.copy.ready_within_s,
            ends_within_s=self.copy.ends_within_s,
        )
        copy = self._stack.enter_context(running_copy(plan))
        self._running = configuration, copy
        return copy, copy.ready_s

    def _failed_check(self, configuration: Configuration, copy: RunningCopy) -> str:
        outputs = self.space.outputs_of(configuration)
        if not outputs or outputs == self.space.outputs_of(self.space.start):
            return ""
        if outputs not in self._checked:
            if self.check is None:
                raise SetupError("a setting that may change what is answered needs a check; give one by --check")
            self._checked[outputs] = self.check(copy)
        why = self._checked[outputs]
        return f"answers otherwise: {why}" if why else ""

    def _measure(self, copy: RunningCopy, share: float, ready_s: float) -> Observation:
        plan = self.load.plan(copy, share)
        plan = replace(plan, duration_s=max(plan.duration_s, self._least_s))
        report = uvloop.run(run_bench(plan, sample_timelines=False))
        if report.interrupted:
            raise KeyboardInterrupt
        levels = tuple(_figures(level) for level in report.levels if level.latency.count)
        if not levels:
            errors = sorted({name for level in report.levels for name in level.errors})
            return Observation(
                share=share, failure=f"no request succeeded: {', '.join(errors) or 'none ended in time'}"
            )
        return Observation(levels=levels, share=share, curves=_curves(copy), ready_s=ready_s)


def _figures(level: LevelResult) -> Figures:
    return Figures(
        concurrency=level.concurrency,
        throughput_per_s=level.requests_per_s,
        p50_s=level.latency.p50_s,
        p99_s=level.latency.p99_s,
        failed=level.failed / (level.failed + level.latency.count),
        cpu_s=level.server_cpu_per_request_s,
        seconds=level.duration_s,
        spoiled=level.spoiled,
    )


def _curves(copy: RunningCopy) -> dict[str, tuple[tuple[int, float, int], ...]]:
    """What the models of a copy have counted of their batches; empty where they tell nothing."""
    connection = http.client.HTTPConnection(copy.http, timeout=_ANSWER_WITHIN_S)
    try:
        connection.request("GET", "/v2/models/stats")
        found = msgspec.json.decode(connection.getresponse().read(), type=_Statistics)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return {}  # it has no models, or does not answer now: the search does without
    finally:
        connection.close()
    return {
        model.name: tuple(
            (each.batch_size, each.compute_infer.ns / each.compute_infer.count / 1e9, each.compute_infer.count)
            for each in model.batch_stats
            if each.compute_infer.count
        )
        for model in found.model_stats
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCheck:
    """A check that is a shell command: it finds the copy's address in `TRILITH_URL`, and passes when it ends with 0.

    Attributes:
        command: for the shell.
        timeout_s: seconds within which it must end.
    """

    command: str
    timeout_s: float = 600.0

    def __call__(self, copy: RunningCopy) -> str:
        """Why the copy fails it; "" when it passes."""
        try:
            ended = subprocess.run(
                self.command,
                shell=True,
                env={**os.environ, "TRILITH_URL": f"http://{copy.http}", "TRILITH_GRPC": copy.grpc},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"the check did not end within {self.timeout_s:g} s"
        said = " ".join(ended.stdout.decode("utf-8", "replace").split())[-_MOST_SAID:]
        return "" if ended.returncode == 0 else f"the check ended with {ended.returncode}: {said or 'it said nothing'}"


def command_check(command: str, *, timeout_s: float = 600.0) -> Check:
    """A check that is a shell command; see `CommandCheck`."""
    return CommandCheck(command=command, timeout_s=timeout_s)


def _cause(error: TrilithError) -> str:
    lines = error.message.partition(": ")[2].splitlines() or [error.message]
    told = [line.removeprefix("trilith: ") for line in lines if line.startswith("trilith: ")]
    return (told or lines)[-1][:_MOST_SAID]

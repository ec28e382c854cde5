"""A diagnosis as text for a person. Only builds what rich prints; it prints nothing itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from trilith.measure.diagnose.diagnosis import Diagnosis
from trilith.measure.diagnose.evidence import Evidence, Level
from trilith.measure.diagnose.findings.finding import LATENCY, Change
from trilith.measure.diagnose.verified import Verified
from trilith.measure.diagnose.waterfall import Bar, Waterfall
from trilith.measure.diagnose.workflow import Workflow
from trilith.measure.units import duration

_BAR_CELLS: Final = 30
_COLOURS: Final = {0: "bright_black", 1: "magenta", 2: "cyan", 3: "blue"}


def render(diagnosis: Diagnosis) -> RenderableType:
    """The verdict first, then what it rests on."""
    parts: list[RenderableType] = [*_verdict(diagnosis), _ladder(diagnosis.evidence)]
    for waterfall in diagnosis.waterfalls:
        parts += [Text(), _waterfall(waterfall, diagnosis.waterfall_load)]
    level = _of_load(diagnosis.evidence, diagnosis.waterfall_load)
    if level is not None and level.processes:
        parts += [Text(), _processors(level, diagnosis.evidence.cores)]
    parts += [Text(f"Not read: {line}.", style="dim") for line in diagnosis.evidence.unread]
    return Group(*parts)


def _verdict(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    verdict = diagnosis.verdict
    yield Text(verdict.sentence, style="bold")
    if verdict.floor != "unknown":
        where = f" ({verdict.where})" if verdict.where else ""
        yield Text(
            f"Floor {verdict.floor_words}. Stage: {verdict.stage}{where}. Confidence: {verdict.confidence_word}"
            f" ({verdict.confidence:.2f})."
        )
    for line in verdict.evidence:
        yield Text(f"  - {line}")
    if verdict.next_best is not None:
        yield Text(f"Next-best explanation: {verdict.next_best.stage}: {verdict.next_best.sentence}")
    if verdict.apart:
        yield Text(f"What would tell: {verdict.apart}")
    for number, change in enumerate(verdict.changes, 1):
        yield Text(f"{number}. {change.what}", style="green")
        yield from _change(change)
    if diagnosis.verified is not None:
        yield Text(verified_words(diagnosis.verified), style="bold")
    yield Text()


def render_workflow(found: Workflow) -> RenderableType:
    """The slowest step first, then all of them."""
    table = _table(f"From an edit to an answer: {found.target}")
    table.add_column("step", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("")
    for step in found.steps:
        table.add_row(step.name, "-" if step.seconds is None else duration(step.seconds), escape(step.note))
    return Group(Text(found.sentence, style="bold"), Text(), table)


def _change(change: Change) -> Iterator[Text]:
    if change.gain is not None:
        yield Text(f"   Predicted: {gain_words(change)}. {change.why}")
    elif change.why:
        yield Text(f"   {change.why}")
    for path, value in change.settings.items():
        yield Text(f"   trilith serve ... --set {path}={str(value).lower() if isinstance(value, bool) else value}")


def gain_words(change: Change) -> str:
    """The predicted gain as words."""
    if change.gain is None:
        return "no law says how much"
    what = "as short a time" if change.metric == LATENCY else "the throughput"
    gain = change.gain
    return f"{gain.value:.2f} x {what} at {change.load} in flight ({gain.low:.2f} to {gain.high:.2f})"


def verified_words(found: Verified) -> str:
    """Predicted beside measured, in a sentence."""
    if found.measured is None:
        return f"Not verified: {found.why_not}"
    measured = found.measured
    inside = "inside" if found.inside else "outside"
    return (
        f"Verified: predicted {gain_words(found.change)}; measured {measured.value:.2f} x ({measured.low:.2f} to"
        f" {measured.high:.2f}), {inside} the predicted interval."
    )


def _ladder(evidence: Evidence) -> Table:
    table = _table("The ladder of loads")
    law = evidence.scalability
    for name in ("load", "req/s", "law", "p50", "p99", "fail", "CPU/req", "cores wanted", "client"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in evidence.levels:
        table.add_row(
            str(level.load),
            f"{level.requests_per_s:,.1f}",
            f"{law.throughput_per_s(level.load):,.1f}" if law is not None else "-",
            duration(level.latency.p50_s),
            duration(level.latency.p99_s),
            str(level.failed),
            "-" if level.server_cpu_s is None else duration(level.server_cpu_s),
            "-" if level.runnable is None else f"{level.runnable:.2f}",
            f"{level.generator_cpu:.0%}",
        )
    table.caption = f"It ended because {evidence.why_ended}." + (
        ""
        if law is None
        else f" Law: contention {law.contention:.3f}, coherency {law.coherency:.5f}, off by {law.error:.0%}."
    )
    return table


def _waterfall(waterfall: Waterfall, load: int) -> Table:
    table = _table(f"Where {waterfall.title} spent its {duration(waterfall.latency_s)}, with {load} in flight")
    table.add_column("span", overflow="fold")
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("when", no_wrap=True)
    for bar in waterfall.bars:
        table.add_row(
            escape("  " * bar.depth + bar.label), duration(bar.end_s - bar.start_s), _drawn(bar, waterfall.latency_s)
        )
    if waterfall.left_out:
        table.caption = f"{waterfall.left_out} spans are too short to show. Light: waiting."
    return table


def _drawn(bar: Bar, latency_s: float) -> Text:
    scale = _BAR_CELLS / latency_s if latency_s > 0 else 0.0
    start = min(_BAR_CELLS - 1, int(bar.start_s * scale))
    cells = max(1, min(_BAR_CELLS - start, round((bar.end_s - bar.start_s) * scale)))
    text = Text(" " * start)
    text.append(("░" if bar.waiting else "█") * cells, style=_COLOURS.get(bar.floor, ""))
    return text


def _processors(level: Level, cores: int) -> Table:
    table = _table(f"Where the processors go, with {level.load} in flight ({cores} cores)")
    table.add_column("process")
    for name in ("used", "wanted beside", "busy threads", "wait for the lock"):
        table.add_column(name, justify="right", no_wrap=True)
    for process in level.processes:
        if process.runnable < 0.01:
            continue
        table.add_row(
            escape(f"{process.role} ({process.pid})"),
            f"{process.cpu:.2f}",
            f"{process.delay:.2f}",
            str(sum(thread.cpu + thread.delay > 0.05 for thread in process.threads)),
            "-" if process.lock_wait is None else f"{process.lock_wait:.1f}",
        )
    table.add_row("the load generator", f"{level.generator_cpu:.2f}", f"{level.generator_wait:.2f}", "1", "-")
    return table


def _of_load(evidence: Evidence, load: int) -> Level | None:
    return next((level for level in evidence.levels if level.load == load), None)


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )

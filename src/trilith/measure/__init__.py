"""Measurement: load on an endpoint, what it says about the three floors, and what it cost the server."""

from trilith.measure.attribution import AttributedSpan, SpanKey, attribute
from trilith.measure.batch_means import Interval
from trilith.measure.bench import run_bench
from trilith.measure.bench_plan import BenchPlan
from trilith.measure.breakdown import Breakdown, FloorTimes, SpanTimes, break_down
from trilith.measure.breakdown_table import breakdown_table
from trilith.measure.conditions import read_conditions
from trilith.measure.export import to_csv, to_json
from trilith.measure.histogram import DurationHistogram, DurationSummary
from trilith.measure.html_report import to_html
from trilith.measure.levels import LevelPlan, closed_level, open_level
from trilith.measure.load import Body, Target, TimelineSample
from trilith.measure.load.arrivals import read_recording
from trilith.measure.load.made_tensors import parse_shapes
from trilith.measure.load.probe import example_body
from trilith.measure.preflight import MADE_BODY, made_name, preflight
from trilith.measure.process_tree import ProcessSample, cpu_seconds, process_tree
from trilith.measure.rate_search import RateFound, RateSearch
from trilith.measure.report import render
from trilith.measure.results import BenchReport, LevelResult
from trilith.measure.scenario import Scenario, read_scenario
from trilith.measure.seconds import SecondFigures
from trilith.measure.slo import Slo, SloResult, parse_time_s
from trilith.measure.stability import Stability, stability
from trilith.measure.statistics import (
    Noise,
    RatioEstimate,
    Verdict,
    judge,
    noise_of,
    paired_ratio,
    rounds_needed,
    too_noisy,
)
from trilith.measure.subject import Subject, SubjectSpec, plan_for, read_bodies, subject

__all__ = [
    "to_html",
    "plan_for",
    "read_scenario",
    "Scenario",
    "made_name",
    "parse_shapes",
    "subject",
    "read_bodies",
    "SubjectSpec",
    "Subject",
    "MADE_BODY",
    "AttributedSpan",
    "BenchPlan",
    "BenchReport",
    "Body",
    "Breakdown",
    "DurationHistogram",
    "DurationSummary",
    "FloorTimes",
    "Interval",
    "LevelPlan",
    "LevelResult",
    "Noise",
    "ProcessSample",
    "RatioEstimate",
    "RateFound",
    "RateSearch",
    "SecondFigures",
    "Slo",
    "SloResult",
    "SpanKey",
    "SpanTimes",
    "Stability",
    "Target",
    "TimelineSample",
    "Verdict",
    "attribute",
    "break_down",
    "breakdown_table",
    "closed_level",
    "cpu_seconds",
    "example_body",
    "judge",
    "noise_of",
    "paired_ratio",
    "open_level",
    "parse_time_s",
    "preflight",
    "process_tree",
    "read_conditions",
    "read_recording",
    "render",
    "rounds_needed",
    "run_bench",
    "stability",
    "to_csv",
    "to_json",
    "too_noisy",
]

"""Which floor is the bottleneck: a ladder of loads, what it shows, a verdict, and what would help."""

from trilith.measure.diagnose.diagnosis import Diagnosis, to_json
from trilith.measure.diagnose.evidence import Evidence
from trilith.measure.diagnose.findings import Change, Finding
from trilith.measure.diagnose.html import to_html
from trilith.measure.diagnose.report import render, render_workflow
from trilith.measure.diagnose.run import diagnose
from trilith.measure.diagnose.verdict import NOISIEST, Verdict, decide
from trilith.measure.diagnose.verified import Verified
from trilith.measure.diagnose.workflow import Step, Workflow
from trilith.measure.diagnose.workflow_run import time_workflow

__all__ = [
    "NOISIEST",
    "Change",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Step",
    "Verdict",
    "Verified",
    "Workflow",
    "decide",
    "diagnose",
    "render",
    "render_workflow",
    "time_workflow",
    "to_html",
    "to_json",
]

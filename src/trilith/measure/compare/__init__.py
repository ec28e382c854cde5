"""Two or more endpoints under the same load, in turn: which one is better, by how much, and how sure is that?"""

from trilith.measure.compare.export import comparison_to_json
from trilith.measure.compare.page import comparison_to_html
from trilith.measure.compare.plan import ComparePlan, Contestant
from trilith.measure.compare.results import CompareReport, Comparison, SpanDifference, Standing
from trilith.measure.compare.run import CompareProgress, Comparing
from trilith.measure.compare.table import render_comparison

__all__ = [
    "Comparing",
    "ComparePlan",
    "CompareProgress",
    "CompareReport",
    "Comparison",
    "Contestant",
    "SpanDifference",
    "Standing",
    "comparison_to_html",
    "comparison_to_json",
    "render_comparison",
]

"""How many replicas and machines a rate takes, from what was measured of a service."""

from trilith.measure.capacity.capacity_table import capacity_sentence, capacity_to_json, render_capacity
from trilith.measure.capacity.check import CheckResult, check_of, share_of_running
from trilith.measure.capacity.measure import Measured, measure_service, replay_rate
from trilith.measure.capacity.report_points import points_of_json, points_of_levels
from trilith.measure.capacity.service_model import MeasuredPoint, ServiceModel, fit_service
from trilith.measure.capacity.sizing import CapacityPlan, Demand, Size, plan_capacity

__all__ = [
    "CapacityPlan",
    "CheckResult",
    "Demand",
    "Measured",
    "MeasuredPoint",
    "ServiceModel",
    "Size",
    "capacity_sentence",
    "capacity_to_json",
    "check_of",
    "fit_service",
    "measure_service",
    "plan_capacity",
    "points_of_json",
    "points_of_levels",
    "render_capacity",
    "replay_rate",
    "share_of_running",
]

"""How many replicas and machines a rate takes, from what was measured of a service."""

from trilith.measure.capacity.capacity_table import capacity_sentence, capacity_to_json, render_capacity
from trilith.measure.capacity.measure import Measured, measure_service
from trilith.measure.capacity.report_points import points_of_json, points_of_levels
from trilith.measure.capacity.service_model import MeasuredPoint, ServiceModel, fit_service
from trilith.measure.capacity.sizing import CapacityPlan, Demand, Size, plan_capacity

__all__ = [
    "CapacityPlan",
    "Demand",
    "Measured",
    "MeasuredPoint",
    "ServiceModel",
    "Size",
    "capacity_sentence",
    "capacity_to_json",
    "fit_service",
    "measure_service",
    "plan_capacity",
    "points_of_json",
    "points_of_levels",
    "render_capacity",
]

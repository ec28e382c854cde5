"""Which waiting requests run together, and when. Pure: no I/O, no thread, no clock but an argument."""

from __future__ import annotations

from trilith.runtime.schedule.ahead import AheadWindow
from trilith.runtime.schedule.batcher import DynamicBatcher
from trilith.runtime.schedule.call_queue import CallBatch, CallQueue, QueuedCall
from trilith.runtime.schedule.config import BatchingConfig
from trilith.runtime.schedule.cost import MeasuredSize
from trilith.runtime.schedule.deadlines import DeadlineHeap
from trilith.runtime.schedule.halves import Halves
from trilith.runtime.schedule.occupancy import Occupancy
from trilith.runtime.schedule.ordering import ArrivalOrder
from trilith.runtime.schedule.policy import LONGEST_S, QueuePolicy, TimeoutAction
from trilith.runtime.schedule.sizing import BatchSizer, LearnedCurve
from trilith.runtime.schedule.statistics import QueueStatistics
from trilith.runtime.schedule.waiting import Waiting

__all__ = [
    "LONGEST_S",
    "AheadWindow",
    "ArrivalOrder",
    "BatchSizer",
    "BatchingConfig",
    "CallBatch",
    "CallQueue",
    "DeadlineHeap",
    "DynamicBatcher",
    "Halves",
    "LearnedCurve",
    "MeasuredSize",
    "Occupancy",
    "QueuePolicy",
    "QueueStatistics",
    "QueuedCall",
    "TimeoutAction",
    "Waiting",
]

"""Surfaces on which the best is known: servers in a few lines of queueing, with noise that is the same in each run."""

import math
import random

from trilith.measure.tune.decider import Tuner
from trilith.measure.tune.objective import Figures, Objective, Observation
from trilith.measure.tune.space import Space, knob


def server(seed):
    """A pipeline of Python and a batching model on some cores: its space, and (throughput, p99) of a configuration."""
    draw = random.Random(seed)
    cores, in_flight = draw.choice([2, 4, 8]), draw.choice([8, 16, 32])
    fixed_ms, row_ms, python_ms = draw.uniform(0.2, 8), draw.uniform(0.5, 5), draw.uniform(0.2, 6)
    parallel, lock, oversubscribed = draw.uniform(0.2, 0.95), draw.uniform(0, 0.4), draw.uniform(0.05, 0.5)

    def measured(replicas, batch, instances, threads, wait_ms):
        rows = min(batch, max(1.0, in_flight / instances))
        batch_ms = (fixed_ms + row_ms * rows) * (1 - parallel + parallel / threads) * 1.02**threads
        batch_ms += wait_ms / 2 if rows < batch else 0.0
        stages = [rows * instances / batch_ms, replicas / python_ms * (1 - lock * (1 - 1 / replicas))]
        stages.append(cores / ((fixed_ms + row_ms * rows) / rows + python_ms))
        throughput = sum(each**-5 for each in stages) ** (-1 / 5)
        used = instances * threads + min(replicas, in_flight)
        if used > cores:
            throughput /= 1 + oversubscribed * math.log2(used / cores)
        return 1e3 * throughput, in_flight / throughput / 1e3 + batch_ms / 1e3

    space = Space(
        [
            knob("A.replicas", [1, 2, 4], current=1),
            knob("A.read.max_batch", [1, 2, 4, 8, 16, 32], current=8),
            knob("models.m.instances", [1, 2, 4], current=1),
            knob("models.m.session.intra_op_threads", [1, 2, 4], current=1),
            knob("A.read.max_wait_ms", [0, 1, 4]),
        ]
    )
    return space, measured


def observation(figures, share, noise, draw):
    throughput, p99_s = figures
    off = math.exp(draw.gauss(0, noise / math.sqrt(share)))
    level = Figures(concurrency=8, throughput_per_s=throughput * off, p50_s=p99_s / 3, p99_s=p99_s / off)
    return Observation(levels=(level,), share=share)


def searched(space, measured, *, budget, noise, seed=0, objective=None):
    """A search to its end."""
    tuner = Tuner(space, objective or Objective(), budget=budget)
    draw = random.Random(seed)
    while (proposal := tuner.propose()) is not None:
        figures = measured(*proposal.configuration)
        tuner.observe(proposal.configuration, observation(figures, proposal.share, noise, draw))
    return tuner

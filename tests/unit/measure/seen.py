"""Evidence as servers of known bottlenecks would give it, made by the laws of queues instead of measured."""

from trilith.measure.diagnose.evidence import (
    BatchPoint,
    Evidence,
    Level,
    Memory,
    Noise,
    ProcessUse,
    Stage,
    Station,
    ThreadUse,
)
from trilith.measure.histogram import DurationSummary

QUIET = Noise(spread=0.05, stolen=0.0, foreign=0.1)


def latency(mean_s, count=200):
    return DurationSummary(
        count=count, mean_s=mean_s, min_s=mean_s / 2, p50_s=mean_s, p90_s=mean_s, p99_s=mean_s * 1.3, max_s=mean_s * 2
    )


def stage(floor, name, edge, seconds, whole_s, calls=1.0, per_call_s=None):
    earlier, later = edge.split(" -> ")
    return Stage(
        floor=floor,
        name=name,
        earlier=earlier,
        later=later,
        waiting=later in ("batched", "sent", "started"),
        share=seconds / whole_s,
        mean_s=seconds,
        calls=calls,
        per_call_s=seconds / calls if per_call_s is None else per_call_s,
    )


def process(pid, role, runnable, *, threads=1, lock_wait=None):
    each = tuple(
        ThreadUse(thread_id=pid + number, name="python", cpu=runnable / threads, delay=0.0) for number in range(threads)
    )
    return ProcessUse(pid=pid, role=role, cpu=runnable, delay=0.0, threads=each, lock_wait=lock_wait)


def evidence(levels, **more):
    return Evidence(url="http://127.0.0.1:1/run", cores=2, levels=tuple(levels), noise=QUIET, tells_time=True, **more)


def service_level(
    load,
    *,
    places=1,
    service_s=0.02,
    replica=0.05,
    inside_wait=False,
    coding_s=0.0,
    slots=None,
    replicas=1,
    lock_wait=0.0,
    calls_by_server=(),
    busy_by_server=(),
    sent_bytes=200.0,
    batch_max=0,
    batches=(),
    held_s=0.0,
    loads=0,
):
    """`Slow.run` with so many places, each of which takes `service_s` a call."""
    alone_s = service_s + coding_s + held_s
    rate = min(load / alone_s, places / (service_s + coding_s))
    whole_s = load / rate
    waits_s = whole_s - alone_s + held_s
    own, gateway = "service Slow.run", "gateway Slow.run"
    stages = [
        stage(3, gateway, "queued -> sent", 0.0 if inside_wait else waits_s, whole_s),
        stage(3, gateway, "sent -> started", waits_s if inside_wait else 0.0, whole_s),
        stage(2, own, "started -> decoded", coding_s / 2, whole_s),
        stage(2, own, "decoded -> infer", service_s, whole_s),
        stage(2, own, "infer -> encoded", coding_s / 2, whole_s),
    ]
    station = Station(
        kind="service",
        name="Slow",
        servers=replicas,
        slots=slots or places,
        calls=200,
        busy=rate * (service_s + coding_s + (waits_s if inside_wait else 0.0)),
        calls_by_server=calls_by_server or (200 // replicas,) * replicas,
        busy_by_server=busy_by_server or (rate * service_s / replicas,) * replicas,
        batch_max=batch_max,
        batches=batches,
        loads=loads,
        pids=tuple(range(100, 100 + replicas)),
    )
    busy = min(1.0, rate * service_s / places)
    processes = [process(1, "gateway", 0.05)]
    processes += [
        process(pid, "replica Slow", replica * busy, threads=max(1, places), lock_wait=lock_wait)
        for pid in station.pids
    ]
    return Level(
        load=load,
        requests_per_s=rate,
        latency=latency(whole_s),
        server_cpu_s=(sum(each.cpu for each in processes)) / rate,
        generator_cpu=0.03,
        sent_bytes=sent_bytes,
        received_bytes=sent_bytes,
        stages=tuple(stages),
        stations=(station,),
        processes=tuple(processes),
    )


def model_level(
    load,
    *,
    instances=1,
    run_s=0.02,
    wants=0.05,
    threads=1,
    batch_max=1,
    cost=None,
    held_s=0.0,
    loads=0,
    in_gateway=True,
):
    """`m`, called directly, whose run of n rows takes `cost(n)` seconds or `run_s`; `wants`: cores of one run."""
    cost = cost or (lambda _: run_s)
    size = max(1, min(batch_max, load // (2 * instances)))
    rate = min(load / (cost(1) + held_s), instances * size / cost(size))
    whole_s = load / rate
    run_now_s = min(whole_s, cost(size))
    stages = [
        stage(1, "model m", "queued -> batched", whole_s - run_now_s, whole_s),
        stage(1, "model m", "input -> infer", run_now_s, whole_s),
    ]
    busy = rate / size * cost(size)
    station = Station(
        kind="model",
        name="m",
        servers=instances,
        slots=instances,
        calls=200,
        busy=busy,
        batch_max=batch_max,
        batches=(BatchPoint(size=size, seconds=cost(size), count=20),),
        loads=loads,
        pids=() if in_gateway else (100,),
    )
    runs = ThreadUse(thread_id=2, name="python", cpu=wants * busy, delay=0.0)
    front = ThreadUse(thread_id=1, name="python", cpu=0.05, delay=0.0)
    gateway = ProcessUse(
        pid=1, role="gateway", cpu=0.05 + (runs.cpu if in_gateway else 0.0), delay=0.0, threads=(front, runs)
    )
    processes = (gateway,) if in_gateway else (gateway, process(100, "model m", wants * busy))
    return Level(
        load=load,
        requests_per_s=rate,
        latency=latency(whole_s),
        server_cpu_s=sum(each.cpu for each in processes) / rate,
        generator_cpu=0.03,
        stages=tuple(stages),
        stations=(station,),
        processes=processes,
    )


def ladder(make, loads=(1, 2, 4, 8, 16), **more):
    return [make(load, **more) for load in loads]


def memory(touched_bytes):
    return Memory(touched_bytes=touched_bytes, copy_bytes_per_s=16e9, cache_bytes=32 << 20)

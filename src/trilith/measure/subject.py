"""From what a person says of a target to requests that can be sent there: plain HTTP, OIP over HTTP or gRPC, any gRPC.

Rule 1: all that can be wrong with a target is found here, by one request, before any load.
Rule 2: nothing here runs inside an event loop: what asks over gRPC runs one of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from trilith.errors import InvalidConfig, SetupError
from trilith.measure.bench_plan import BenchPlan
from trilith.measure.load import Body, Target, Traffic, prepare
from trilith.measure.load.grpc_call import GrpcAnswer, call
from trilith.measure.load.grpc_schema import GrpcMethod, method_by_file, method_by_reflection
from trilith.measure.load.grpc_station import GrpcStation
from trilith.measure.load.grpc_target import GrpcTarget, is_grpc, prepare_grpc
from trilith.measure.load.http_station import HttpStation
from trilith.measure.load.items import is_stream
from trilith.measure.load.made_tensors import made_inputs
from trilith.measure.load.oip_requests import (
    INFER_PATH,
    check_model_url,
    grpc_message,
    http_body,
    inputs_over_grpc,
    inputs_over_http,
    model_path,
)
from trilith.measure.load.probe import example_body
from trilith.measure.preflight import first_answer, made_name

INLINE: Final = "inline"
_JSON: Final = "application/json"
_TRIES: Final = 3
_ASK_AGAIN_S: Final = 0.25
_WILL_PASS: Final = ("grpc-status 14", "grpc-status 8", "grpc-status 4 ")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSpec:
    """A target in a person's words.

    Attributes:
        url: `http://`, `https://`, `grpc://` or `grpcs://`.
        name: in the report; by default the URL.
        weight: how often it is chosen among several.
        data: names of files, or JSON texts, sent in turn.
        method: HTTP method; by default by whether there is data.
        content_type: of the data.
        headers: of every request.
        proto: a `.proto` or a descriptor set with the gRPC method; None asks the server.
        model: of an OIP server; the URL is the server's then.
        version: of the model; "" for the server's choice.
        shapes: of the model's inputs, by name.
        input_data: `zero`, `random`, a file or a folder.
        connections: to a gRPC server; 0: as many as it takes.
        timeout_s: seconds for a request.
        seed: of random data.
    """

    url: str
    name: str = ""
    weight: float = 1.0
    data: tuple[str, ...] = ()
    method: str | None = None
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    proto: Path | None = None
    model: str = ""
    version: str = ""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    input_data: str = "random"
    connections: int = 0
    timeout_s: float = 30.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A target that has answered.

    Attributes:
        target: where it is.
        url: what the report calls it.
        method: HTTP method, or `gRPC`.
        bodies: what the report calls what is sent.
        traffic: the requests.
        has_timeline: whether its answers tell their timeline.
        answer: the body of its first answer; of gRPC the messages, one after the other.
        status: the HTTP status of that; of gRPC 200 for a good one, else 503.
    """

    target: Target
    url: str
    method: str
    bodies: tuple[str, ...]
    traffic: Traffic
    has_timeline: bool
    answer: bytes = b""
    status: int = 200


def subject(spec: SubjectSpec, *, wait_s: float = 0.0) -> Subject:
    """Asks the target what it takes, prepares requests, and sends one. Not inside an event loop.

    Args:
        spec: the target.
        wait_s: seconds that it may take to come up: until then every answer but a good one is "not yet".

    Raises:
        InvalidConfig: the spec does not fit the target.
        SetupError: nobody answers, or the answer says that the request is wrong, or that it always fails.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            return _asked(spec)
        except SetupError:
            if time.monotonic() + _ASK_AGAIN_S > until:
                raise
        time.sleep(_ASK_AGAIN_S)


def _asked(spec: SubjectSpec) -> Subject:
    if is_grpc(spec.url):
        return asyncio.run(_grpc(spec))
    if spec.proto is not None:
        raise InvalidConfig(
            f"--proto is for gRPC, and {spec.url!r} is HTTP; expected grpc://HOST:PORT/package.Service/Method"
        )
    return _oip_http(spec) if spec.model else _http(spec)


def plan_for(levels: BenchPlan, subjects: Sequence[Subject], *, name: str = "") -> BenchPlan:
    """A plan's levels, with these targets instead of its own.

    Args:
        levels: the plan.
        subjects: one or several.
        name: what the report calls several.
    """
    first = subjects[0]
    several = len(subjects) > 1
    return replace(
        levels,
        target=first.target,
        url=name if several else first.url,
        method="" if several else first.method,
        body_names=() if several else first.bodies,
        traffic=tuple(each.traffic for each in subjects),
    )


def read_bodies(data: tuple[str, ...], content_type: str) -> tuple[tuple[Body, ...], tuple[str, ...]]:
    """Files and texts as bodies, and what the report calls them.

    Raises:
        InvalidConfig: a file cannot be read.
    """
    bodies, names = [], []
    for item in data:
        if item.lstrip()[:1] in ("{", "[", '"'):
            bodies.append(Body(content=item.encode(), content_type=content_type or _JSON))
            names.append(INLINE)
        else:
            bodies.append(Body.read(Path(item.removeprefix("@")), content_type))
            names.append(item)
    return tuple(bodies), tuple(names)


def _http(spec: SubjectSpec) -> Subject:
    target = Target.parse(spec.url)
    bodies, names = read_bodies(spec.data, spec.content_type)
    if not bodies and spec.method in (None, "POST"):
        example = example_body(target)
        if example is not None:
            bodies, names = (example,), (made_name(example),)
    method = spec.method.upper() if spec.method is not None else ("POST" if bodies else "GET")
    plan = BenchPlan(
        target=target, method=method, bodies=bodies, body_names=names, headers=spec.headers, timeout_s=spec.timeout_s
    )
    answer = first_answer(plan)
    items = answer.content_type if is_stream(answer.content_type) else ""
    requests = [prepare(target, method, body, spec.headers) for body in bodies or (None,)]
    return Subject(
        target=target,
        url=target.url,
        method=method,
        bodies=names,
        traffic=_traffic_over_http(spec, target, requests, items),
        has_timeline=answer.has_timeline,
        answer=answer.content,
        status=answer.status,
    )


def _traffic_over_http(spec: SubjectSpec, target: Target, requests: Sequence[object], items: str = "") -> Traffic:
    return Traffic(
        make_station=lambda number: HttpStation(number, target, timeout_s=spec.timeout_s, items=items),
        requests=requests,
        weight=spec.weight,
        name=spec.name or target.url,
        timelines_at=target,
    )


def _oip_http(spec: SubjectSpec) -> Subject:
    base = Target.parse(spec.url)
    check_model_url(base.path, spec.url)
    specs = inputs_over_http(base, spec.model, spec.version, spec.headers, timeout_s=spec.timeout_s)
    path = model_path(spec.model, spec.version) + "/infer"
    target = Target(host=base.host, port=base.port, tls=base.tls, path=path)
    made = [http_body(tensors) for tensors in made_inputs(specs, spec.input_data, spec.shapes, seed=spec.seed)]
    body, own = made[0]
    plan = BenchPlan(
        target=target, method="POST", bodies=(body,), headers=(*spec.headers, *own), timeout_s=spec.timeout_s
    )
    answer = first_answer(plan)
    requests = [prepare(target, "POST", body, (*spec.headers, *own)) for body, own in made]
    return Subject(
        target=target,
        url=target.url,
        method="POST",
        bodies=(spec.input_data,),
        traffic=_traffic_over_http(spec, target, requests),
        has_timeline=answer.has_timeline,
        answer=answer.content,
        status=answer.status,
    )


async def _grpc(spec: SubjectSpec) -> Subject:
    target = GrpcTarget.parse(spec.url)
    streams = False
    if spec.model:
        check_model_url(target.path, spec.url)
        specs = await inputs_over_grpc(target, spec.model, spec.version, spec.headers, timeout_s=spec.timeout_s)
        target = GrpcTarget(host=target.host, port=target.port, tls=target.tls, path=INFER_PATH)
        made = made_inputs(specs, spec.input_data, spec.shapes, seed=spec.seed)
        calls: list[tuple[bytes, ...]] = [(grpc_message(spec.model, spec.version, tensors),) for tensors in made]
        names: tuple[str, ...] = (spec.input_data,)
    else:
        method = await _method(spec, target)
        streams = method.streams_answers
        bodies, names = read_bodies(spec.data, "")
        given = [(body.content, f"--data {name}") for body, name in zip(bodies, names, strict=True)]
        calls = [method.serialise(content, where) for content, where in given or [(b"{}", "without --data")]]
    answer = await _check(spec, target, calls[0])
    requests = [prepare_grpc(target, messages, spec.headers) for messages in calls]
    traffic = Traffic(
        make_station=lambda number: GrpcStation(
            number, target, timeout_s=spec.timeout_s, counts=streams, connections=spec.connections
        ),
        requests=requests,
        weight=spec.weight,
        name=spec.name or target.url,
    )
    method_name = f"gRPC {spec.model}".rstrip()
    return Subject(
        target=Target(host=target.host, port=target.port, tls=target.tls, path=target.path),
        url=target.url,
        method=method_name,
        bodies=names,
        traffic=traffic,
        has_timeline=answer.has_timeline,
        answer=b"".join(answer.messages),
        status=503 if answer.error else 200,
    )


async def _method(spec: SubjectSpec, target: GrpcTarget) -> GrpcMethod:
    if spec.proto is None:
        return await method_by_reflection(target, spec.headers, timeout_s=spec.timeout_s)
    from trilith.service import read_proto_file

    return method_by_file(target, read_proto_file(spec.proto, Path.cwd(), "--proto"), spec.proto)


async def _check(spec: SubjectSpec, target: GrpcTarget, messages: tuple[bytes, ...]) -> GrpcAnswer:
    """One call, a few when it fails."""
    for _ in range(_TRIES):
        answer = await call(target, messages, spec.headers, timeout_s=spec.timeout_s)
        if not answer.error or answer.error.startswith(_WILL_PASS):
            return answer
    said = f": {answer.message.rstrip('.')}" if answer.message else ""
    raise SetupError(
        f"{target.url} is answered with {answer.error}, {_TRIES} times in a row, and more of the same would be"
        f" too{said}. Check the method, --data and --header."
    )

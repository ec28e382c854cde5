"""What `ocr_compare.py` compares: each way to serve the OCR pipeline, how it is started, asked and read.

Rule 1: all read the same pictures with the same models and the same pre- and postprocessing.
Rule 2: what differs from the target before it is one thing, and `about` says which.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.peers.environment import DEFAULT_FOLDER, ensure
from benchmarks.peers.registry import PEERS
from benchmarks.peers.server import PeerFailed, running
from benchmarks.peers.workloads import OIP_HEAD_BYTES, WORKLOADS, lines_of_oip, page_as_oip
from lines import Line, row_texts

from trilith.measure import SubjectSpec
from trilith.measure.copies import CopyPlan, running_copy

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BASELINE = EXAMPLES / "ocr_baseline"
PROTO = BASELINE / "ocr.proto"
BASELINE_METHOD = "ocr_baseline.Ocr/Read"
OPENVINO = EXAMPLES / "ocr" / "openvino.yaml"
APP = f"{EXAMPLES}/ocr/app.py:Ocr"
_ANSWER_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A running server, and how a page is read there.

    Attributes:
        pid: the process at the root of its tree.
        url: as `trilith compare` takes it.
        send: from pictures (files of PNG) to what is sent.
        read: from a PNG to the rows of text that stand on it.
    """

    pid: int
    url: str
    send: Callable[[Sequence[Path], Path], SubjectSpec]
    read: Callable[[bytes], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One way to serve the pipeline.

    Attributes:
        name: in the table.
        about: what is different from the target before.
        start: starts it, gives where it is, and ends it.
    """

    name: str
    about: str
    start: Callable[[], contextlib.AbstractContextManager[Place]]


class TargetFailed(Exception):
    """A target could not be started; the message says which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """A target of `trilith serve`: over HTTP, or over gRPC."""

    target: str
    options: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    grpc: str = ""

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Place]:
        plan = CopyPlan(target=self.target, options=self.options, settings=self.settings)
        with running_copy(plan) as copy:
            yield Place(
                pid=copy.pid,
                url=f"grpc://{copy.grpc}/{self.grpc}" if self.grpc else copy.url("/read"),
                send=_grpc_with(PROTO if self.grpc == BASELINE_METHOD else None) if self.grpc else _as_pictures,
                read=_http_reader(copy.http, "/read"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByHand:
    """The hand-written gRPC server."""

    options: tuple[str, ...] = ()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Place]:
        command = [sys.executable, str(BASELINE / "server.py"), "--port", "0", *self.options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as server:
            try:
                line = server.stdout.readline() if server.stdout is not None else ""
                if not line.startswith("serving on "):
                    raise TargetFailed(f"{' '.join(command)} did not start; what it wrote stands above")
                address = line.split()[-1]
                yield Place(
                    pid=server.pid,
                    url=f"grpc://{address}/{BASELINE_METHOD}",
                    send=_grpc_with(PROTO),
                    read=lambda png: _by_stub(address, png),
                )
            finally:
                server.terminate()
                try:
                    server.wait(20)
                except subprocess.TimeoutExpired:
                    server.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peer:
    """A server of benchmarks/peers, in an environment of its own."""

    name: str

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Place]:
        peer = PEERS[self.name]
        workload = WORKLOADS[peer.workloads[0]]()
        bin_folder = ensure(peer.environment, DEFAULT_FOLDER)
        oip = workload.name.endswith("-oip")
        try:
            with running(peer, bin_folder, workload) as (pid, port):
                address, path = f"127.0.0.1:{port}", workload.path
                read = _http_reader(address, path, oip=oip)
                yield Place(pid=pid, url=f"http://{address}{path}", send=_as_oip if oip else _as_pictures, read=read)
        except PeerFailed as error:
            raise TargetFailed(str(error)) from error


def _as_pictures(pictures: Sequence[Path], folder: Path) -> SubjectSpec:
    return SubjectSpec(url="", data=tuple(map(str, pictures)))


def _as_oip(pictures: Sequence[Path], folder: Path) -> SubjectSpec:
    bodies = []
    for picture in pictures:
        bodies.append(folder / f"{picture.stem}.oip")
        bodies[-1].write_bytes(page_as_oip(picture.read_bytes()))
    return SubjectSpec(
        url="",
        data=tuple(map(str, bodies)),
        content_type="application/octet-stream",
        headers=(("Inference-Header-Content-Length", str(OIP_HEAD_BYTES)),),
    )


def _grpc_with(proto: Path | None) -> Callable[[Sequence[Path], Path], SubjectSpec]:
    def send(pictures: Sequence[Path], folder: Path) -> SubjectSpec:
        bodies = []
        for picture in pictures:
            bodies.append(folder / f"{picture.stem}.json")
            content = base64.b64encode(picture.read_bytes()).decode()
            # Trilith's own messages have a picture with its name and type; ocr.proto has its bytes alone.
            bodies[-1].write_text(json.dumps({"image": content if proto is not None else {"content": content}}))
        return SubjectSpec(url="", data=tuple(map(str, bodies)), proto=proto)

    return send


def _by_stub(address: str, png: bytes) -> list[str]:
    """Reads by the stubs of ocr.proto."""
    from client import read

    lines = read(address, png).lines
    return row_texts([Line(text=line.text, score=line.score, box=[], row=line.row) for line in lines])


def _http_reader(address: str, path: str, *, oip: bool = False) -> Callable[[bytes], list[str]]:
    def read(png: bytes) -> list[str]:
        connection = http.client.HTTPConnection(address, timeout=_ANSWER_WITHIN_S)
        headers = {"content-type": "image/png"}
        if oip:
            headers = {"Inference-Header-Content-Length": str(OIP_HEAD_BYTES)}
        try:
            connection.request("POST", path, page_as_oip(png) if oip else png, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise TargetFailed(f"http://{address}{path} answered {answer.status}: {content[:300]!r}")
        lines = lines_of_oip(content) if oip else json.loads(content)
        return row_texts([Line(**line) for line in lines])

    return read


def _both(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings of both models."""
    return {f"models.{model}.{path}": value for model in ("ocr-det", "ocr-rec") for path, value in settings.items()}


def _tuned(settings: dict[str, Any] | None = None, precision: str = "") -> _Served:
    """The example with OpenVINO, in the best precision that the processor computes in, and what differs."""
    pinned = precision or ("bf16" if computes_bf16() else "f32")
    own = _both({"parameters.INFERENCE_PRECISION_HINT": pinned})
    return _Served(target=APP, options=("--config", str(OPENVINO)), settings={**own, **(settings or {})})


def computes_bf16() -> bool:
    """Whether this processor computes in bfloat16."""
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace").split()
    except OSError:
        return False
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)


def _peer(name: str, title: str) -> Target:
    return Target(name=title, about=PEERS[name].settings, start=_Peer(name=name))


def groups() -> dict[str, tuple[Target, ...]]:
    """What is compared with what on this machine. The first of each is its baseline."""
    cores, bf16 = len(os.sched_getaffinity(0)), computes_bf16()
    first = Target(name="gRPC by hand", about="as first written", start=_ByHand())
    by_hand = Target(
        name="gRPC by hand, tuned",
        about="sessions of one thread, shared without a lock; no spinning; denormals as zero; crops in batches of four",
        start=_ByHand(options=("--tuned",)),
    )
    trilith = Target(name="Trilith", about="three services, models in the runtime; HTTP", start=_Served(target=APP))
    f32 = Target(name="Trilith, OpenVINO f32", about="the backend of both models", start=_tuned(precision="f32"))
    bf16_too = Target(name="Trilith, OpenVINO bf16", about="the precision of both models", start=_tuned())
    best = bf16_too if bf16 else f32
    steps = (
        by_hand,
        Target(
            name="Trilith, one method",
            about="the same code in two replicas: processes instead of threads; still gRPC",
            start=_Served(target=f"{BASELINE}/service.py:Carried", grpc=BASELINE_METHOD),
        ),
        Target(
            name="Trilith over gRPC",
            about="three services; models in the runtime; batches of what waits",
            start=_Served(target=APP, grpc="ocr.Ocr/Read"),
        ),
        replace(trilith, about="the protocol: HTTP"),
        f32,
        *([bf16_too] if bf16 else []),
    )
    without = (
        replace(best, about="all of it"),
        Target(
            name="... with one instance",
            about="of each model: one stream of one thread",
            start=_tuned(_both({"instances": 1})),
        ),
        Target(
            name="... with threads for instances",
            about=f"one stream of {cores} threads for each model",
            start=_tuned(_both({"instances": 1, "session.intra_op_threads": cores})),
        ),
        Target(name="... without batches", about="each crop alone", start=_tuned({"Recognizer.read.max_batch": 1})),
    )
    peers = (
        by_hand,
        trilith,
        replace(best, about="the backend of both models, its precision pinned"),
        _peer("bentoml-pages", "BentoML"),
        _peer("ray-pages", "Ray Serve"),
        *(
            _peer(f"pytriton-pages-{instances}x{batch}", f"PyTriton, {instances} x {batch}")
            for instances in (1, 2)
            for batch in (1, 4)
        ),
    )
    return {
        "reference": (first, by_hand, trilith, replace(best, about="the backend of both models, its precision pinned")),
        "steps": steps,
        "without": without,
        "peers": peers,
    }

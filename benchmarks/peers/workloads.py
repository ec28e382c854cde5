"""What is asked of every peer: one body, and how a right answer looks."""

from __future__ import annotations

import io
import json
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from benchmarks.grpc_load import identity_request
from benchmarks.peers.identity import Variant

from trilith.runtime.sources import resolve

OCR_MODELS = Path(__file__).parents[2] / "examples" / "ocr" / "models"
ECHO_VALUES = [1.0, 2.0, 3.0, 4.0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of request.

    Attributes:
        name: how it is chosen; part of the names of the servers' files, with _ for -.
        path: of the endpoint, where the peer lets it be chosen.
        body: what is sent.
        content_type: of the body.
        right: whether the content of an answer is right.
        variables: environment variables for the servers.
        headers: of the request, beside its content type.
        message: the same as a `ModelInferRequest`, for gRPC; empty where there is none.
        answer_s: seconds that the first answer may take.
        model: how the model of the Open Inference Protocol is configured, where that is what is served.
    """

    name: str
    path: str
    body: bytes
    content_type: str
    right: Callable[[bytes], bool]
    variables: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    message: bytes = b""
    model: Variant | None = None
    answer_s: float = 5.0

    @property
    def module(self) -> str:
        """The name as it is written in a module's name."""
        return self.name.replace("-", "_")


def echo() -> Workload:
    """Four floats in JSON, there and back: the cost of the floor itself."""
    return Workload(
        name="echo",
        path="/echo",
        body=json.dumps({"x": ECHO_VALUES}).encode(),
        content_type="application/json",
        right=lambda content: json.loads(content) == ECHO_VALUES,
    )


def batched() -> Workload:
    """A row of one float, doubled by a method that takes 5 ms for one call and for up to 32 together.

    A row and not a float, because clients of BentoML send a list to a batchable method.
    """
    return Workload(
        name="batched",
        path="/double",
        body=json.dumps({"x": [2.0]}).encode(),
        content_type="application/json",
        right=lambda content: json.loads(content) == [4.0],
    )


def ocr_rec() -> Workload:
    """One crop, 192 pixels wide, through the PP-OCRv6 recognition model; the same file and options for every peer."""
    configuration = yaml.safe_load((OCR_MODELS / "ocr-rec" / "model.yaml").read_text("utf-8"))
    model = resolve(configuration["source"], sha256=configuration["sha256"])
    crop = np.random.default_rng(0).uniform(-1, 1, (1, 3, 48, 192)).astype(np.float32)
    npy = io.BytesIO()
    np.save(npy, crop)
    return Workload(
        name="ocr-rec",
        path="/recognize",
        body=npy.getvalue(),
        content_type="application/x-npy",
        right=_Steps(192 // 8),
        variables={"RECOGNIZER_MODEL": str(model)},
    )


def ocr_page() -> Workload:
    """A whole page, an invoice of 120 pieces of text as a picture: detection and recognition, the same code for all."""
    picture, heading = _invoice()
    return Workload(
        name="ocr-page",
        path="/read",
        body=picture,
        content_type="image/png",
        right=lambda content: heading in [line["text"] for line in json.loads(content)],
        variables=_page_models(),
        answer_s=60.0,
    )


def ocr_page_oip() -> Workload:
    """The same as a model of the Open Inference Protocol: one text in, the lines as JSON in one text."""
    picture, heading = _invoice()
    return Workload(
        name="ocr-page-oip",
        path="/v2/models/ocr/infer",
        body=page_as_oip(picture),
        content_type="application/octet-stream",
        headers={"Inference-Header-Content-Length": str(OIP_HEAD_BYTES)},
        right=lambda content: heading in [line["text"] for line in lines_of_oip(content)],
        variables=_page_models(),
        answer_s=60.0,
    )


OIP_HEAD_BYTES = 256


def page_as_oip(picture: bytes) -> bytes:
    """A request of the model `ocr` with one picture. Its head is as long for every picture, so one header fits all."""
    raw = struct.pack("<I", len(picture)) + picture
    tensor = {"name": "image", "datatype": "BYTES", "shape": [1, 1], "parameters": {"binary_data_size": len(raw)}}
    return json.dumps({"inputs": [tensor]}).encode().ljust(OIP_HEAD_BYTES) + raw


def lines_of_oip(content: bytes) -> list[dict[str, Any]]:
    """The lines in an answer of the model `ocr`."""
    found: list[dict[str, Any]] = json.loads(json.loads(content)["outputs"][0]["data"][0])
    return found


def _invoice() -> tuple[bytes, str]:
    """A page as PNG, and a text that stands on it."""
    if str(OCR_MODELS.parent) not in sys.path:
        sys.path.insert(0, str(OCR_MODELS.parent))  # the example is a folder of modules
    from pages import invoice

    return invoice().png(), "Northwind Trading Ltd"


def _page_models() -> dict[str, str]:
    variables = {"OCR_FOLDER": str(OCR_MODELS.parent)}
    for variable, name in (("OCR_DETECTOR_MODEL", "ocr-det"), ("OCR_RECOGNIZER_MODEL", "ocr-rec")):
        configuration = yaml.safe_load((OCR_MODELS / name / "model.yaml").read_text("utf-8"))
        variables[variable] = str(resolve(configuration["source"], sha256=configuration["sha256"]))
    return variables


def identity(name: str = "identity", model: Variant | None = None) -> Workload:
    """Four floats by the Open Inference Protocol, there and back: JSON over HTTP, raw contents over gRPC."""
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, len(ECHO_VALUES)], "data": ECHO_VALUES}
    return Workload(
        name=name,
        path="/v2/models/identity/infer",
        body=json.dumps({"inputs": [tensor]}).encode(),
        content_type="application/json",
        right=lambda content: json.loads(content)["outputs"][0]["data"] == ECHO_VALUES,
        message=identity_request(values=tuple(ECHO_VALUES)),
        model=model or Variant(),
    )


def identity_binary() -> Workload:
    """The same with the extension of binary tensors, which `tritonclient` uses over HTTP."""
    raw = struct.pack(f"<{len(ECHO_VALUES)}f", *ECHO_VALUES)
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, len(ECHO_VALUES)]}
    tensor["parameters"] = {"binary_data_size": len(raw)}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return replace(
        identity("identity-binary"),
        body=head + raw,
        content_type="application/octet-stream",
        headers={"Inference-Header-Content-Length": str(len(head))},
        right=lambda content: content.endswith(raw),
    )


def identity_alone() -> Workload:
    """JSON or raw contents again, and no request runs together with another."""
    return identity("identity-alone", Variant(batched=False))


class _Steps:
    """Right is what the first peer answered, if it is one class for each step: they run the same model."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._first: list[int] | None = None

    def __call__(self, content: bytes) -> bool:
        classes = json.loads(content)
        if self._first is None and len(classes) == self._steps:
            self._first = classes
        return bool(classes == self._first)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "echo": echo,
    "batched": batched,
    "ocr-rec": ocr_rec,
    "ocr-page": ocr_page,
    "ocr-page-oip": ocr_page_oip,
    "identity": identity,
    "identity-binary": identity_binary,
    "identity-alone": identity_alone,
}

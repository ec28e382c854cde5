"""Python models as files, and what writes them into a repository."""

import textwrap

import numpy as np

from trilith.runtime import InferRequest

ADD_SUB = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.types = [
            pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, name)["data_type"])
            for name in ("OUTPUT0", "OUTPUT1")
        ]

    def execute(self, requests):
        responses = []
        for request in requests:
            first = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            second = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            added, subtracted = first + second, first - second
            responses.append(pb_utils.InferenceResponse(output_tensors=[
                pb_utils.Tensor("OUTPUT0", added.astype(self.types[0])),
                pb_utils.Tensor("OUTPUT1", subtracted.astype(self.types[1])),
            ]))
        return responses
"""
ADD_SUB_PBTXT = """
name: "add_sub"
backend: "python"
max_batch_size: 8
input [
  { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] },
  { name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] }
]
output [
  { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] },
  { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] }
]
instance_group [{ kind: KIND_CPU count: 2 }]
"""

HEAD = """
import json
import os
import signal
import sys
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils
"""

ECHO = (
    HEAD
    + """

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        return config

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("y", self.run(x, request))])

    def run(self, x, request):
        return x
"""
)


def echo_with(**methods):
    """The echo with methods of its own, each given as the text of its body."""
    signatures = {
        "run": "x, request",
        "execute": "requests",
        "initialize": "args",
        "answer": "request",
    }
    text = ECHO
    for name, body in methods.items():
        arguments = ", ".join(filter(None, ("self", signatures.get(name, ""))))
        text += f"\n    def {name}({arguments}):\n{textwrap.indent(textwrap.dedent(body), ' ' * 8)}\n"
    return text


def write_model(repository, name, source, *, pbtxt="", yaml="", version="1", files=()):
    """Writes a model's folder."""
    folder = repository / name
    (folder / version).mkdir(parents=True)
    (folder / version / "model.py").write_text(source)
    if pbtxt:
        (folder / "config.pbtxt").write_text(pbtxt)
    if yaml:
        (folder / "model.yaml").write_text(yaml)
    for path, content in dict(files).items():
        (folder / path).write_text(content)
    return folder


def row(*values):
    """One row of numbers."""
    return np.array([values], np.float32)


def ask(model, *values, **more):
    """A request to an echo."""
    return InferRequest(model=model, inputs={"x": row(*values)}, **more)

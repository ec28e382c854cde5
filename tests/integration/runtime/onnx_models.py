"""Real ONNX models, made on the spot."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, weights=(), metadata=None):
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if metadata:
        helper.set_model_props(model, metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)


def save_mlp(path, *, batch="n", factor=1.0, metadata=None):
    """y = relu(x W) * factor, and its row sums; the first dimension is `batch`."""
    weights = [numpy_helper.from_array(WEIGHTS * np.float32(factor), "W")]
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["sum"], keepdims=1, noop_with_empty_axes=0),
    ]
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    nodes[2].input.append("axes")
    outputs = [value("y", [batch, 3]), value("sum", [batch, 1])]
    return save(path, nodes, [value("x", [batch, 4])], outputs, [*weights, axes], metadata)


def save_reshape(path):
    """y = x reshaped to [-1, 3]: runs only where the number of columns is a multiple of 3."""
    shape = numpy_helper.from_array(np.array([0, 3], np.int64), "shape")
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    return save(path, nodes, [value("x", ["n", "w"])], [value("y", ["n", 3])], [shape])


def save_text(path):
    """Text in, text out."""
    kind = TensorProto.STRING
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    return save(path, nodes, [value("x", ["n", 2], kind)], [value("y", ["n", 2], kind)])


def save_tiny(path):
    """y = x * 1e-20."""
    nodes = [helper.make_node("Mul", ["x", "f"], ["y"])]
    weights = [numpy_helper.from_array(np.array([1e-20], np.float32), "f")]
    return save(path, nodes, [value("x", ["n", 16])], [value("y", ["n", 16])], weights)

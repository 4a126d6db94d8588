"""Writes heavy.onnx: a product of two matrices, 2048 x 8192 and 8192 x 2048, for each request, whatever its rows are."""
import onnx
from onnx import TensorProto as T, helper as h

shapes = [h.make_tensor(name, T.INT64, [2], shape) for name, shape in (("left", [2048, 8192]), ("right", [8192, 2048]))]
nodes = [
    h.make_node("ReduceSum", ["x"], ["one"], keepdims=1),
    h.make_node("Expand", ["one", "left"], ["a"]), h.make_node("Expand", ["one", "right"], ["b"]),
    h.make_node("MatMul", ["a", "b"], ["c"]), h.make_node("ReduceMax", ["c"], ["m"], keepdims=1), h.make_node("Add", ["x", "m"], ["y"]),
]
graph = h.make_graph(nodes, "heavy", [h.make_tensor_value_info("x", T.FLOAT, ["n", 1])], [h.make_tensor_value_info("y", T.FLOAT, ["n", 1])], shapes)
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9), "heavy.onnx")

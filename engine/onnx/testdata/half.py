"""Networks of neural.zip in float16, and LSTMs of bytes, with ONNX Runtime's answers, in half.zip.

Converts what PyTorch's exporters wrote: float16 by onnxruntime.transformers, with inputs and outputs of float16 and of float32, and LSTM by
onnxruntime.quantization. Needs from PyPI: onnx, onnxruntime, sympy. ONNX Runtime computes on one thread. The form of the files is neural.py's.
Run it in this folder.
"""

import os
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.float16 import convert_float_to_float16

source = zipfile.ZipFile("neural.zip")
archive = zipfile.ZipFile("half.zip", "w", zipfile.ZIP_DEFLATED)


def session(data):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def save(name, model, inputs):
    data = model.SerializeToString()
    run = session(data)
    kinds = {i.name: np.float16 if i.type == "tensor(float16)" else None for i in run.get_inputs()}
    inputs = {k: v.astype(kinds[k]) if kinds[k] else v for k, v in inputs.items()}
    tensors = [numpy_helper.from_array(v, "in/" + k) for k, v in inputs.items()]
    names = [o.name for o in run.get_outputs()]
    tensors += [numpy_helper.from_array(np.array(v, order="C"), "out/" + n) for n, v in zip(names, run.run(None, inputs))]
    golden = helper.make_model(helper.make_graph([], "golden", [], [], initializer=tensors))
    for suffix, content in ((".onnx", data), (".golden", golden.SerializeToString())):
        archive.writestr(zipfile.ZipInfo(name + suffix, (2026, 11, 26, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    print(f"{name}: {len(data)} bytes; {' '.join(sorted({n.op_type for n in model.graph.node}))}", flush=True)


def known(name):
    golden = onnx.load_from_string(source.read(name + ".golden"))
    inputs = {t.name[3:]: numpy_helper.to_array(t) for t in golden.graph.initializer if t.name.startswith("in/")}
    return onnx.load_from_string(source.read(name + ".onnx")), inputs


def quantized(model):
    with tempfile.TemporaryDirectory() as folder:
        a, b = os.path.join(folder, "a.onnx"), os.path.join(folder, "b.onnx")
        onnx.save(model, a)
        quantize_dynamic(a, b, op_types_to_quantize=["LSTM", "MatMul", "Gemm"], weight_type=QuantType.QInt8)
        return onnx.load(b)


def lstm(name, direction, d, extra, signed=True, per_channel=False, **attributes):
    r = np.random.RandomState(3)
    x, b = r.randn(6, 4, 3).astype(np.float32), r.randn(d, 40).astype(np.float32)
    kind = np.int8 if signed else np.uint8
    low, high = (-127, 128) if signed else (0, 256)
    w, u = r.randint(low, high, (d, 3, 20)).astype(kind), r.randint(low, high, (d, 5, 20)).astype(kind)
    shape = (d, 20) if per_channel else (d,)
    scales = [np.abs(r.randn(*shape)).astype(np.float32) * np.float32(0.01) + np.float32(0.001) for _ in range(2)]
    zeros = [np.zeros(shape, kind) if signed else r.randint(100, 140, shape).astype(kind) for _ in range(2)]
    more = {n: r.randn(d, 4, 5).astype(np.float32) for n in extra if n in "hc"}
    if "p" in extra:
        more["p"] = r.randn(d, 15).astype(np.float32)
    tensors = {"w": w, "u": u, "b": b, "ws": scales[0], "wz": zeros[0], "us": scales[1], "uz": zeros[1]}
    names = ["x", "w", "u", "b", "", *(n if n in more else "" for n in "hcp"), "ws", "wz", "us", "uz"]
    inputs = {"x": x, **more}
    infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, list(a.shape)) for n, a in inputs.items()]
    outs = [helper.make_tensor_value_info(f"y{i}", onnx.TensorProto.FLOAT, None) for i in range(3)]
    node = helper.make_node("DynamicQuantizeLSTM", names, [o.name for o in outs], domain="com.microsoft", hidden_size=5, direction=direction, **attributes)
    graph = helper.make_graph([node], "g", infos, outs, initializer=[numpy_helper.from_array(a, n) for n, a in tensors.items()])
    save("op_" + name, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8), inputs)


for name in ("perceptron", "tabnet", "ft_transformer", "series", "image", "lstm", "gru", "text", "bert"):
    for keep in (False, True):
        model, inputs = known(name + "_script")
        try:
            save(f"{name}_half_{'inside' if keep else 'whole'}", convert_float_to_float16(model, keep_io_types=keep), inputs)
        except Exception as e:
            print("FAILED", name, keep, str(e)[:300])
model, inputs = known("lstm_script")
save("lstm_bytes_dynamic", quantized(model), inputs)
for i, direction in enumerate(("forward", "reverse", "bidirectional")):
    d = 1 + i // 2
    lstm(f"quantized_lstm_{direction}", direction, d, "")
    lstm(f"quantized_lstm_{direction}_states", direction, d, "hcp")
    lstm(f"quantized_lstm_{direction}_unsigned", direction, d, "h", signed=False)
    lstm(f"quantized_lstm_{direction}_columns", direction, d, "", per_channel=True, clip=0.7)
archive.close()

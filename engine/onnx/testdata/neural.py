"""Small neural networks with ONNX Runtime's answers, in neural.zip.

Networks of tables, series and texts, as PyTorch's exporters write them, as ONNX
Runtime's optimizer rewrites them, and in eight bits by onnxruntime.quantization.
Needs from PyPI: torch, onnxscript, transformers, onnx, onnxruntime. Weights are random,
seeds fixed; ONNX Runtime computes on one thread. Each NAME.onnx has a NAME.golden, a
ModelProto whose initializers are the inputs ("in/...") and the outputs ("out/...").
Run it in this folder.
"""

import io
import os
import sys
import tempfile
import warnings
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
archive = zipfile.ZipFile("neural.zip", "w", zipfile.ZIP_DEFLATED)
ROWS = 7
failed = []


def session(data, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL, to=None):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = level
    if to:
        options.optimized_model_filepath = to
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def bare(data):
    """A model without what exporters note of where its nodes come from."""
    model = onnx.load_from_string(data)
    graphs = [model.graph, *(f for f in model.functions)]
    for part in (model, *graphs, *(v for g in graphs for v in (*g.node, *g.value_info, *getattr(g, "initializer", ())))):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    model.graph.ClearField("value_info")
    return model.SerializeToString()


def save(name, model, inputs):
    """Answers are those of ONNX Runtime as it comes. Of a model with QuantizeLinear around its operators it fuses them
    to operators of bytes, which round elsewhere: there "out/" is the file as it stands, and "fused/" what it comes with."""
    data = bare(model if isinstance(model, bytes) else model.SerializeToString())
    tensors = [numpy_helper.from_array(v, "in/" + k) for k, v in inputs.items()]
    levels = {"out/": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}
    if name.endswith("_qdq"):
        levels = {"out/": ort.GraphOptimizationLevel.ORT_DISABLE_ALL, "fused/": ort.GraphOptimizationLevel.ORT_ENABLE_ALL}
    for kind, level in levels.items():
        run = session(data, level)
        names = [o.name for o in run.get_outputs()]
        tensors += [numpy_helper.from_array(np.array(v, order="C"), kind + n) for n, v in zip(names, run.run(None, inputs))]
    golden = helper.make_model(helper.make_graph([], "golden", [], [], initializer=tensors))
    for suffix, content in ((".onnx", data), (".golden", golden.SerializeToString())):
        archive.writestr(zipfile.ZipInfo(name + suffix, (2026, 11, 24, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    ops = sorted({(n.domain + "." if n.domain else "") + n.op_type for n in onnx.load_from_string(data).graph.node})
    print(f"{name}: {len(data)} bytes; {' '.join(ops)}", flush=True)


class Reader(CalibrationDataReader):
    def __init__(self, inputs):
        self.rows = iter([inputs])

    def get_next(self):
        return next(self.rows, None)


def attempt(name, f):
    try:
        f()
    except Exception as e:
        failed.append(f"{name}: {type(e).__name__}: {str(e).strip().splitlines()[0][:200] if str(e).strip() else ''}")
        print("FAILED", failed[-1], flush=True)


def variants(name, net, inputs, axes=None, wide=()):
    """Exports a network by both exporters, and rewrites it. wide: inputs whose second size is open, too."""
    net = net.eval()
    args = tuple(torch.from_numpy(v) for v in inputs.values())
    names = list(inputs)
    folder = tempfile.mkdtemp()
    old, new = os.path.join(folder, "old.onnx"), os.path.join(folder, "new.onnx")

    def legacy():
        torch.onnx.export(net, args, old, input_names=names, output_names=["y"], opset_version=17, dynamo=False,
                          dynamic_axes={**{n: {0: "rows", **({1: "steps"} if n in wide else {})} for n in names}, "y": {0: "rows"}})
        save(name + "_script", open(old, "rb").read(), inputs)

    def dynamo():
        rows = torch.export.Dim("rows")
        steps = torch.export.Dim("steps", min=2, max=20) if wide else None
        shapes = tuple({0: rows, **({1: steps} if n in wide else {})} for n in names)
        program = torch.onnx.export(net, args, input_names=names, output_names=["y"], dynamo=True, dynamic_shapes=shapes, opset_version=20, verbose=False)
        onnx.save(program.model_proto, new)
        save(name + "_dynamo", open(new, "rb").read(), inputs)

    attempt(name + "_script", legacy)
    attempt(name + "_dynamo", dynamo)
    source = old if os.path.exists(old) else new

    def optimized():
        to = os.path.join(folder, "optimized.onnx")
        session(open(source, "rb").read(), ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, to)
        save(name + "_optimized", open(to, "rb").read(), inputs)

    def dynamic():
        to = os.path.join(folder, "dynamic.onnx")
        quantize_dynamic(source, to, op_types_to_quantize=["MatMul", "Gemm", "Conv"], weight_type=QuantType.QInt8)  # no LSTM: it has an operator of its own
        save(name + "_int8_dynamic", open(to, "rb").read(), inputs)

    def static(form, kind):
        pre, to = os.path.join(folder, "pre.onnx"), os.path.join(folder, kind + ".onnx")
        quant_pre_process(source, pre, skip_symbolic_shape=True)
        quantize_static(pre, to, Reader(inputs), quant_format=form, per_channel=form == QuantFormat.QDQ)
        save(name + "_int8_" + kind, open(to, "rb").read(), inputs)

    attempt(name + "_optimized", optimized)
    attempt(name + "_int8_dynamic", dynamic)
    attempt(name + "_int8_qdq", lambda: static(QuantFormat.QDQ, "qdq"))
    attempt(name + "_int8_qoperator", lambda: static(QuantFormat.QOperator, "qoperator"))
    return source


def table(columns=9, seed=1):
    return np.random.RandomState(seed).randn(ROWS, columns).astype(np.float32)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, 4) for n in (5, 11)])
        self.body = nn.Sequential(nn.Linear(17, 24), nn.BatchNorm1d(24), nn.GELU(), nn.Dropout(0.1), nn.Linear(24, 24), nn.LayerNorm(24), nn.SiLU(), nn.Linear(24, 3))
        for m in self.body:
            if isinstance(m, nn.BatchNorm1d):
                m.running_mean.uniform_(-1, 1), m.running_var.uniform_(0.5, 2)

    def forward(self, x, categories):
        parts = [e(categories[:, i]) for i, e in enumerate(self.embeddings)]
        return torch.softmax(self.body(torch.cat([x, *parts], 1)), -1)


class TabNet(nn.Module):
    """Steps of attentive feature selection with gated linear units, and sparsemax."""

    def __init__(self, columns=9, width=8, steps=3):
        super().__init__()
        self.norm = nn.BatchNorm1d(columns)
        self.shared = nn.Linear(columns, 4 * width, bias=False)
        self.own = nn.ModuleList([nn.Linear(2 * width, 4 * width) for _ in range(steps + 1)])
        self.attention = nn.ModuleList([nn.Linear(width, columns) for _ in range(steps)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(columns) for _ in range(steps)])
        self.head = nn.Linear(width, 2)

    def features(self, x, i):
        h = F.glu(self.shared(x))
        return (h + F.glu(self.own[i](h))) * 0.5**0.5

    @staticmethod
    def sparsemax(z):
        ordered, _ = torch.topk(z, z.shape[-1], dim=-1)
        k = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
        total = torch.cumsum(ordered, -1)
        count = (1 + k * ordered > total).to(z.dtype).sum(-1, keepdim=True)
        threshold = (torch.gather(total, -1, count.to(torch.int64) - 1) - 1) / count
        return torch.clamp(z - threshold, min=0)

    def forward(self, x):
        x = self.norm(x)
        prior, out = torch.ones_like(x), 0
        h = self.features(x, 0)
        for i, (a, n) in enumerate(zip(self.attention, self.norms)):
            mask = self.sparsemax(n(a(h[:, h.shape[1] // 2:])) * prior)
            prior = prior * (1.3 - mask)
            h = self.features(mask * x, i + 1)
            out = out + torch.relu(h[:, : h.shape[1] // 2])
        return self.head(out)


class FTTransformer(nn.Module):
    def __init__(self, columns=9, width=16):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(columns, width) * 0.3), nn.Parameter(torch.randn(columns, width) * 0.3)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.ModuleList([Block(width, 4, 32) for _ in range(2)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x):
        t = x.unsqueeze(-1) * self.weight + self.bias
        t = torch.cat([self.first.expand(t.shape[0], -1, -1), t], 1)
        for b in self.blocks:
            t = b(t)
        return self.head(t[:, 0])


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x, mask=None):
        b, s, w = x.shape
        q, k, v = self.qkv(self.one(x)).reshape(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, w))
        return x + self.feed(self.two(x))


class Convolutions(nn.Module):
    """Over a series: strides, dilations, groups and pools of all kinds."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(3, 12, 5, padding=2), nn.BatchNorm1d(12), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(12, 12, 3, padding=2, dilation=2, groups=4), nn.GroupNorm(3, 12), nn.SiLU(),
            nn.Conv1d(12, 16, 1), nn.InstanceNorm1d(16, affine=True), nn.ELU(), nn.AvgPool1d(3, 2, 1), nn.ConvTranspose1d(16, 8, 4, stride=2, padding=1), nn.Hardswish(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4))

    def forward(self, x):
        return self.body(x)


class Residual(nn.Module):
    """A residual network over images."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.one = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(x + self.one(x))
        return torch.log_softmax(self.head(x.mean((2, 3))), 1)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.words = nn.Embedding(50, 10)
        self.cells = kind(10, 12, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 3)

    def forward(self, ids):
        y, _ = self.cells(self.words(ids))
        return self.head(torch.cat([y.mean(1)], 1))


class Text(nn.Module):
    """An encoder of token ids with a mask, as sentence classifiers are."""

    def __init__(self, width=12):
        super().__init__()
        self.words, self.places = nn.Embedding(50, width), nn.Embedding(20, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList([Block(width, 3, 24) for _ in range(2)])
        self.head = nn.Linear(width, 2)

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
        m = (1 - mask[:, None, None, :].to(x.dtype)) * -1e4  # a range of infinity would be its scale in eight bits
        for b in self.blocks:
            x = b(x, m)
        w = mask.unsqueeze(-1).to(x.dtype)
        return self.head((x * w).sum(1) / w.sum(1).clamp(min=1))


def tokens(steps=11, words=50):
    r = np.random.RandomState(3)
    ids = r.randint(1, words, (ROWS, steps)).astype(np.int64)
    mask = (np.arange(steps)[None] < r.randint(3, steps + 1, (ROWS, 1))).astype(np.int64)
    return ids * mask, mask


def bert():
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(vocab_size=52, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=20, num_labels=3)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertForSequenceClassification(config)

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask).logits

    ids, mask = tokens()
    inputs = {"input_ids": ids, "attention_mask": mask}
    source = variants("bert", Net(), inputs, wide=("input_ids", "attention_mask"))

    def fused():
        from onnxruntime.transformers import optimizer
        m = optimizer.optimize_model(source, model_type="bert", num_heads=2, hidden_size=16, opt_level=1)
        save("bert_fused", m.model.SerializeToString(), inputs)

    attempt("bert_fused", fused)


def f32(*shape, seed=1):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def u8(*shape, seed=1):
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def i8(*shape, seed=1):
    return np.random.RandomState(seed).randint(-128, 128, shape).astype(np.int8)


counts = {}


def case(op, inputs, outputs=1, domain="", opset=21, types=("FLOAT",), fixed=(), **attributes):
    """One operator. inputs: arrays, None where left out; those whose index is in fixed become initializers."""
    counts[op] = counts.get(op, 0) + 1
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(inputs)]
    arrays = {n: np.asarray(a) for n, a in zip(names, inputs) if a is not None}
    known = {names[i] for i in fixed}
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim) for n, a in arrays.items() if n not in known]
    outs = [helper.make_tensor_value_info(f"y{i}", getattr(onnx.TensorProto, types[min(i, len(types) - 1)]), None) for i in range(outputs)]
    node = helper.make_node(op, names, [o.name for o in outs], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", infos, outs, initializer=[numpy_helper.from_array(arrays[n], n) for n in known])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    attempt(f"op_{op}_{counts[op]}", lambda: save(f"op_{op}_{counts[op]}", model, {n: a for n, a in arrays.items() if n not in known}))


def operators():
    for dims in (1, 2, 3):
        x, w = f32(2, 4, *[9, 7, 5][:dims]), f32(6, 4, *[3, 2, 3][:dims], seed=2)
        case("Conv", [x, w, f32(6, seed=3)], fixed=(1, 2), pads=[1, 0, 2][:dims] + [0, 1, 1][:dims], strides=[2, 1, 2][:dims])
        case("Conv", [x, f32(6, 2, *[3, 2, 3][:dims], seed=2)], group=2, strides=[2] * dims, auto_pad="SAME_LOWER")
        case("Conv", [x, f32(6, 2, *[3, 2, 3][:dims], seed=2)], group=2, dilations=[2, 1, 2][:dims], pads=[1] * dims + [2] * dims)
        case("ConvTranspose", [x, f32(4, 3, *[3, 2, 3][:dims], seed=2), f32(6, seed=3)], group=2, strides=[2, 1, 3][:dims], output_padding=[1, 0, 2][:dims], pads=[1, 0, 1][:dims] * 2)
        for op in ("MaxPool", "AveragePool", "LpPool"):
            case(op, [x], kernel_shape=[3, 2, 2][:dims], strides=[2, 2, 1][:dims], ceil_mode=1)
            case(op, [x], kernel_shape=[3, 2, 2][:dims], pads=[1, 1, 0][:dims] * 2, **({"count_include_pad": 1} if op == "AveragePool" else {}))
    case("MaxPool", [f32(2, 3, 8, 8)], outputs=2, types=("FLOAT", "INT64"), kernel_shape=[2, 3], dilations=[2, 1], storage_order=1)
    case("ConvTranspose", [f32(1, 3, 5), f32(3, 2, 4, seed=2)], output_shape=[11], strides=[2])
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            n = 3 if op == "LSTM" else 2
            w, r, b = f32(d, gates * 5, 3, seed=2), f32(d, gates * 5, 5, seed=3) * np.float32(0.4), f32(d, 2 * gates * 5, seed=4)
            x, lengths, h, c = f32(6, 4, 3), np.array([6, 2, 1, 4], np.int32), f32(d, 4, 5, seed=5), f32(d, 4, 5, seed=6)
            kwargs = {"hidden_size": 5, "direction": direction}
            case(op, [x, w, r], outputs=n, fixed=(1, 2), **kwargs)
            case(op, [x, w, r, b, lengths, h] + ([c, f32(d, 15, seed=7)] if op == "LSTM" else []), outputs=n, **kwargs)
            case(op, [x, w, r, b, None, h] + ([c] if op == "LSTM" else []), outputs=n, fixed=(1, 2, 3), clip=0.7, **kwargs)
    case("GRU", [f32(6, 4, 3), f32(1, 15, 3, seed=2), f32(1, 15, 5, seed=3), f32(1, 30, seed=4)], outputs=2, hidden_size=5, linear_before_reset=1)
    case("LSTM", [f32(6, 4, 3), f32(1, 20, 3, seed=2), f32(1, 20, 5, seed=3)], outputs=3, hidden_size=5, activations=["HardSigmoid", "Softsign", "LeakyRelu"], activation_alpha=[0.3, 0.1], activation_beta=[0.4])
    case("LSTM", [f32(6, 4, 3), f32(1, 20, 3, seed=2), f32(1, 20, 5, seed=3)], outputs=3, hidden_size=5, input_forget=1)
    case("RNN", [f32(6, 4, 3), f32(1, 5, 3, seed=2), f32(1, 5, 5, seed=3) * np.float32(0.3)], outputs=2, hidden_size=5, activations=["Relu"])
    for mode in ("constant", "reflect", "edge", "wrap"):
        case("Pad", [f32(3, 4, 5), np.array([0, 2, 1, 1, 0, 3], np.int64)], fixed=(1,), mode=mode)
    case("Pad", [f32(3, 4, 5), np.array([-1, 2, 1, 0], np.int64), np.float32(7), np.array([0, 2], np.int64)])
    for equation, shapes in (("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))), ("ij,kj", ((3, 4), (5, 4))), ("...ij->...ji", ((2, 3, 4),)), ("ii->i", ((4, 4),)), ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))),
                             ("i,j,k->kji", ((2,), (3,), (4,))), ("bij->", ((2, 3, 4),)), ("b...d,d->b...", ((2, 3, 4), (4,)))):
        case("Einsum", [f32(*s, seed=i) for i, s in enumerate(shapes)], equation=equation)
    for form, most in ((u8, 255), (i8, 127)):
        kind = "UINT8" if form is u8 else "INT8"
        zero = form(1)[0]
        case("QuantizeLinear", [f32(5, 7) * 9, np.float32(0.05), zero], types=(kind,))
        case("QuantizeLinear", [f32(5, 7), np.abs(f32(7, seed=2)) + np.float32(0.01), form(7)], types=(kind,), axis=1)
        case("DequantizeLinear", [form(5, 7), np.abs(f32(5, seed=2)), form(5)], axis=0)
        case("MatMulInteger", [u8(4, 600), form(600, 5), np.uint8(3), zero], types=("INT32",))
        case("ConvInteger", [u8(1, 4, 9, 9), u8(3, 4, 3, 3), np.uint8(7), np.uint8(9)], types=("INT32",), pads=[1, 1, 1, 1])
        case("QLinearMatMul", [form(4, 9), np.float32(0.02), zero, form(9, 5), np.float32(0.03), zero, np.float32(0.2), zero], types=(kind,))
        case("QLinearConv", [u8(2, 4, 9), np.float32(0.02), np.uint8(5), i8(6, 4, 3), np.abs(f32(6)) * np.float32(0.1), np.zeros(6, np.int8), np.float32(0.9), np.uint8(100), np.arange(6, dtype=np.int32)], types=("UINT8",), fixed=(1, 2, 3, 4, 5, 6, 7, 8))
    case("DynamicQuantizeLinear", [f32(5, 7)], outputs=3, types=("UINT8", "FLOAT", "UINT8"))
    ms = {"domain": "com.microsoft"}
    case("DynamicQuantizeMatMul", [f32(5, 7), i8(7, 4), np.float32(0.02), np.int8(3), f32(4)], fixed=(1, 2, 3), **ms)
    case("MatMulIntegerToFloat", [u8(5, 7), i8(7, 4), np.float32(0.02), np.abs(f32(4)), np.uint8(9), i8(4), f32(4, seed=2)], **ms)
    case("FusedMatMul", [f32(2, 5, 3), f32(2, 4, 5, seed=2)], transA=1, transB=1, alpha=0.25, **ms)
    case("FusedGemm", [f32(5, 3), f32(3, 4, seed=2), f32(4)], activation="LeakyRelu", activation_alpha=0.2, **ms)
    case("BiasGelu", [f32(5, 3), f32(3)], **ms)
    case("FastGelu", [f32(5, 3), f32(3)], **ms)
    case("SkipLayerNormalization", [f32(2, 5, 8), f32(2, 5, 8, seed=2), f32(8), f32(8, seed=4), f32(8, seed=5)], **ms)
    case("SkipSimplifiedLayerNormalization", [f32(2, 5, 8), f32(2, 5, 8, seed=2), f32(8)], **ms)
    q, k, v = f32(2, 5, 12), f32(2, 6, 12, seed=2), f32(2, 6, 12, seed=3)
    case("MultiHeadAttention", [q, k, v], num_heads=3, **ms)
    case("MultiHeadAttention", [q, k, v, f32(36), np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32), f32(2, 3, 5, 6, seed=5)], num_heads=3, scale=0.4, **ms)
    case("Attention", [f32(2, 5, 8), f32(8, 24, seed=2), f32(24), np.array([5, 3], np.int32)], num_heads=2, **ms)
    case("Attention", [f32(2, 5, 8), f32(8, 24, seed=2), f32(24)], num_heads=2, unidirectional=1, **ms)
    case("ScatterElements", [f32(4, 5), np.array([[0, 2], [1, -1]], np.int64), f32(2, 2, seed=2)], axis=1, reduction="add")
    case("ScatterND", [f32(4, 5), np.array([[0], [2]], np.int64), f32(2, 5, seed=2)], reduction="max")
    case("GatherND", [f32(4, 5, 2), np.array([[0, 1], [3, -1]], np.int64)])
    case("Trilu", [f32(2, 4, 5), np.int64(1)], upper=0)
    case("CumSum", [f32(4, 5), np.int64(1)], exclusive=1, reverse=1)
    case("OneHot", [np.array([0, 3, -1], np.int64), np.int64(4), np.array([0, 1], np.float32)], axis=0)


if __name__ == "__main__":
    operators()
    torch.manual_seed(20261124)
    torch.set_num_threads(1)
    r = np.random.RandomState(5)
    variants("perceptron", Perceptron(), {"x": table(), "categories": np.stack([r.randint(0, 5, ROWS), r.randint(0, 11, ROWS)], 1).astype(np.int64)})
    variants("tabnet", TabNet(), {"x": table()})
    variants("ft_transformer", FTTransformer(), {"x": table()})
    variants("series", Convolutions(), {"x": r.randn(ROWS, 3, 32).astype(np.float32)})
    variants("image", Residual(), {"x": r.randn(ROWS, 3, 16, 16).astype(np.float32)})
    ids, mask = tokens()
    for name, kind in (("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)):
        variants(name, Recurrent(kind), {"ids": ids}, wide=("ids",))
    variants("text", Text(), {"ids": ids, "mask": mask}, wide=("ids", "mask"))
    attempt("bert", bert)
    archive.close()
    print(len(failed), "failed:", *failed, sep="\n  ")

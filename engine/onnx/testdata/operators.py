"""One model for each operator and type, with ONNX Runtime's answer, in operators.zip.

Inputs have what breaks evaluators: NaN, infinities, zeros of both signs, denormals,
extremes of integers, empty batches, broadcasting, negative axes and steps. Needs the
packages of train.py. Run it in this folder.
"""

import itertools
import re
import zipfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from train import golden

archive = zipfile.ZipFile("operators.zip", "w", zipfile.ZIP_DEFLATED)
count, refused = {}, []
F = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.25, 1e-40, -1e-40, 1e30, -1e30, 17.3, -9.75, np.inf, -np.inf, np.nan, 88, -88, 104])
types = {np.dtype(t): getattr(TensorProto, n) for t, n in (
    ("float32", "FLOAT"), ("float64", "DOUBLE"), ("int32", "INT32"), ("int64", "INT64"), ("int8", "INT8"), ("uint8", "UINT8"),
    ("bool", "BOOL"), ("int16", "INT16"), ("uint16", "UINT16"), ("uint32", "UINT32"), ("uint64", "UINT64"), ("object", "STRING"))}


def case(op, inputs, outputs=1, domain="", opset=21, ml=3, constants=(), out_types=None, **attributes):
    """inputs: arrays, None where left out; those whose index is in constants become initializers."""
    names = ["x%d" % i if a is not None else "" for i, a in enumerate(inputs)]
    given = {n: a for i, (n, a) in enumerate(zip(names, inputs)) if a is not None and i not in constants}
    fixed = [numpy_helper.from_array(inputs[i], names[i]) for i in constants]
    outs = ["y%d" % i for i in range(outputs)]
    node = helper.make_node(op, names, outs, domain=domain, **attributes)
    infos = [helper.make_tensor_value_info(n, types[a.dtype], [None] * a.ndim) for n, a in given.items()]
    out = list(out_types or [types[next(iter(given.values())).dtype]])
    for _ in range(3):
        infos_out = [helper.make_tensor_value_info(o, ty, None) for o, ty in zip(outs, out * outputs if len(out) == 1 else out)]
        graph = helper.make_graph([node], "g", infos, infos_out, initializer=fixed)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml)], ir_version=8)
        try:
            g = golden(model, given)
        except Exception as e:
            error = str(e).splitlines()[0]
            expected = re.search(r"does not match expected type \(tensor\((\w+)\)", error)
            if not expected:
                break
            out = [{"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "string": TensorProto.STRING}.get(expected[1]) or getattr(TensorProto, expected[1].upper())]
            continue
        transform = attributes.get("post_transform", "NONE")
        if transform != "NONE" and (transform == "PROBIT" or "Tree" not in op):
            op += "." + transform
        count[op] = count.get(op, 0) + 1
        name = f"{op}_{opset if not domain else ml}_{count[op]}"
        for suffix, m in ((".onnx", model), (".golden", g)):
            archive.writestr(zipfile.ZipInfo(name + suffix, (2026, 11, 22, 0, 0, 0)), m.SerializeToString(), zipfile.ZIP_DEFLATED)
        return
    refused.append(f"{op} {[None if a is None else str(a.dtype) for a in inputs]} {attributes}: {error[:150]}")


def f32(*shape, seed=1):
    return np.asarray(np.random.RandomState(seed).randn(*shape), np.float32)


def grid(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return F.astype(dtype)
    i = np.iinfo(dtype)
    return np.array([0, 1, i.max, i.min, 2, 3, i.max - 1, 7, 100], dtype=dtype) if i.min == 0 else \
        np.array([0, 1, -1, i.max, i.min, 2, -2, 3, i.max - 1, 7, -100], dtype=dtype)


NUMERIC = ("float32", "float64", "int32", "int64")
EMPTY = np.zeros((0, 3), np.float32)


def elementwise():
    for op in "Abs Neg Sqrt Exp Log Floor Ceil Round Sign Reciprocal Sigmoid Tanh Relu Softplus Erf Sin Cos".split():
        for t in NUMERIC if op in ("Abs", "Neg", "Sign", "Relu") else ("float32", "float64"):
            case(op, [grid(t)])
        case(op, [EMPTY])
        case(op, [f32(5, 7)])
    for op, a in (("LeakyRelu", {"alpha": 0.1}), ("Elu", {"alpha": 1.5}), ("Selu", {}), ("HardSigmoid", {}), ("Gelu", {"approximate": "tanh"}), ("Gelu", {})):
        for t in ("float32", "float64"):
            case(op, [grid(t)], **a)
    for t in NUMERIC:
        case("Clip", [grid(t), np.array(-1, t), np.array(2, t)])
        case("Clip", [grid(t), None, np.array(2, t)])
    case("Clip", [grid("float32")], opset=9, min=-1.0, max=0.75)
    case("Not", [np.array([True, False])])
    for t in ("float32", "float64"):
        case("IsNaN", [grid(t)])
        case("IsInf", [grid(t)])
        case("IsInf", [grid(t)], detect_negative=0)


def pairs():
    for op in "Add Sub Mul Div".split():
        for t in NUMERIC:
            a = grid(t)
            b = a[::-1].copy()
            if op == "Div" and np.dtype(t).kind == "i":
                b[b == 0] = 5
                b[b == -1] = 4
            case(op, [a, b])
        case(op, [f32(4, 1, 3), f32(2, 1, seed=2)])
        case(op, [f32(4, 3), f32(3, seed=2)])
        case(op, [f32(3), f32(4, 3, seed=2)])
        case(op, [f32(2, 3, 4), f32(2, 1, 4, seed=2)])
        case(op, [f32(2, 3, 4), f32(1, 3, 1, seed=2)])
        case(op, [f32(4, 3), np.array(0.5, np.float32)])
        case(op, [EMPTY, f32(3)])
        case(op, [EMPTY, f32(1, 1)])
    base = np.array([0.25, 1, 2, -2, 3.5, -0.0, np.inf, np.nan, 1e20], np.float32)
    for e in (0.5, 2, 3, -1, 0, 1, -2, 1.5):
        case("Pow", [base, np.array(e, np.float32)])
        case("Pow", [base.astype(np.float64), np.array(e, np.float64)])
    case("Pow", [base, np.array(2, np.int64)], constants=[1])
    case("Pow", [np.array([1, 2, -3], np.int64), np.array([2, 3, 3], np.int64)])
    for t in ("int32", "int64"):
        case("Mod", [np.array([7, -7, 7, -7], t), np.array([3, 3, -3, -3], t)])
        case("Mod", [np.array([7, -7, 7, -7], t), np.array([3, 3, -3, -3], t)], fmod=1)
    case("Mod", [np.array([7.5, -7.5], np.float32), np.array([2, 2], np.float32)], fmod=1)
    for op in "Equal Less Greater LessOrEqual GreaterOrEqual".split():
        for t in NUMERIC:
            a = grid(t)
            case(op, [a, a[::-1].copy()])
            case(op, [a, a.copy()])
        case(op, [f32(4, 3), np.zeros(3, np.float32)])
    case("Equal", [np.array([["a", ""], ["ü", "b"]], object), np.array(["a", "b"], object)])
    case("Equal", [np.array([True, False]), np.array([True, True])])
    for op in ("And", "Or", "Xor"):
        case(op, [np.array([[True], [False]]), np.array([True, False, True])])
    for op in ("Min", "Max", "Sum", "Mean"):
        for t in ("float32", "float64") if op in ("Sum", "Mean") else NUMERIC:
            a = grid(t)
            case(op, [a, a[::-1].copy()])
        case(op, [f32(4, 1), f32(3, seed=2), f32(1, 3, seed=3)])
        case(op, [f32(4, 2)])
    c = np.array([[True], [False]])
    for t in ("float32", "int64", "object", "uint8", "float64", "int32"):
        x = np.array(["a", "b", "c"], object) if t == "object" else np.arange(3).astype(t)
        case("Where", [c, x, x[::-1].copy()])


def shapes():
    x = f32(2, 3, 4)
    words = np.array([["a", "b", "c"], ["", "e", "ü"]], object)
    for s in ([4, 6], [-1], [0, -1], [2, -1, 2], [24, 1]):
        case("Reshape", [x, np.array(s, np.int64)])
    case("Reshape", [words, np.array([3, 2], np.int64)], out_types=[TensorProto.STRING])
    case("Reshape", [EMPTY, np.array([0, 3], np.int64)])
    case("Reshape", [EMPTY, np.array([-1, 3], np.int64)])
    for axis in (0, 1, 2, -1, 3):
        case("Flatten", [x], axis=axis)
    case("Squeeze", [f32(1, 3, 1)])
    case("Squeeze", [f32(1, 3, 1), np.array([0], np.int64)])
    case("Squeeze", [f32(1, 3, 1)], opset=11, axes=[-1])
    case("Unsqueeze", [f32(3), np.array([0, 2], np.int64)])
    case("Unsqueeze", [f32(3)], opset=11, axes=[1])
    case("Transpose", [x])
    case("Transpose", [x], perm=[1, 0, 2])
    case("Transpose", [words], out_types=[TensorProto.STRING])
    for axis in (0, 1, -1):
        case("Concat", [x, x * 2, x[:, :, :]], axis=axis)
    case("Concat", [words, words], axis=1, out_types=[TensorProto.STRING])
    case("Concat", [EMPTY, f32(2, 3)], axis=0)
    case("Split", [x, np.array([1, 2], np.int64)], outputs=2, axis=1)
    case("Split", [f32(5, 2)], outputs=2, axis=0, num_outputs=2)
    case("Split", [x], outputs=2, axis=2, opset=11, split=[3, 1])
    i64 = lambda *v: np.array(v, np.int64)
    case("Slice", [x, i64(1), i64(3), i64(1)])
    case("Slice", [x, i64(-1), i64(-9223372036854775807), i64(2), i64(-1)])
    case("Slice", [x, i64(0, 0), i64(2, 100), i64(0, 2), i64(1, 2)])
    case("Slice", [x, i64(5), i64(7), i64(1)])
    case("Slice", [x], opset=9, starts=[0, 1], ends=[1, 2147483647], axes=[0, 2])
    case("Slice", [words, i64(0), i64(2), i64(1)], out_types=[TensorProto.STRING])
    for t in (np.int64, np.int32):
        case("Gather", [x, np.array([[0, -1], [1, 2]], t)], axis=1)
        case("Gather", [words, np.array([1], t)], axis=1, out_types=[TensorProto.STRING])
        case("GatherElements", [f32(3, 3), np.array([[0, -1, 2], [2, 0, 1]], t)], axis=0)
        case("GatherElements", [f32(3, 3), np.array([[0], [2], [1]], t)], axis=1)
    case("Gather", [x, np.array(1, np.int64)], axis=2)
    case("Expand", [f32(3, 1), i64(2, 3, 4)])
    case("Expand", [f32(3, 1), i64(1, 1)])
    case("Tile", [f32(2, 3), i64(2, 2)])
    case("Tile", [f32(2, 3), i64(0, 2)])
    case("Shape", [x])
    case("Shape", [x], start=1)
    case("Shape", [x], start=-2, end=-1)
    case("Size", [x])
    case("ConstantOfShape", [i64(2, 3)])
    case("ConstantOfShape", [i64(2)], value=numpy_helper.from_array(np.array([7], np.int64)))
    case("Range", [np.array(1, np.int64), np.array(10, np.int64), np.array(3, np.int64)])
    case("Range", [np.array(5, np.float32), np.array(1, np.float32), np.array(-1.5, np.float32)])
    case("OneHot", [np.array([0, 2, -1, 7], np.int64), np.array(3, np.int64), np.array([0, 1], np.float32)])
    case("Identity", [words], out_types=[TensorProto.STRING])
    case("Identity", [grid("float32")])


def casts():
    whole = {"float32": [0, 1, -1, 2.9, -2.9, 100, -0.0], "float64": [0, 1, -1, 2.9, -2.9, 100]}
    kinds = ("float32", "float64", "int32", "int64", "int8", "uint8", "bool", "int16", "uint16", "uint32", "uint64")
    for a in kinds:
        for b in kinds:
            if a in whole:
                v = np.array(whole[a] if b not in ("uint8", "uint16", "uint32", "uint64") else [0, 1, 2.9, 100], a)
            elif a == "bool":
                v = np.array([True, False])
            else:
                v = grid(a)
            case("Cast", [v], to=types[np.dtype(b)], out_types=[types[np.dtype(b)]])
    case("Cast", [grid("float32")], to=TensorProto.DOUBLE, out_types=[TensorProto.DOUBLE])
    case("Cast", [grid("float64")], to=TensorProto.FLOAT, out_types=[TensorProto.FLOAT])
    case("Cast", [grid("float32")], to=TensorProto.BOOL, out_types=[TensorProto.BOOL])
    case("Cast", [np.array(["1", "-2.5", "1e3", " 7 ", "NaN", "INF", "-INF"], object)], to=TensorProto.FLOAT, out_types=[TensorProto.FLOAT])
    case("Cast", [np.array(["1", "-2"], object)], to=TensorProto.INT64, out_types=[TensorProto.INT64])
    for t in ("float32", "float64"):
        v = np.array([0, 1, -1, 0.1, 1 / 3, 1e10, 1e-10, 123456789, 1234567890123, 1e30, np.inf, -np.inf, np.nan, 100, 1e8, 1e7, 0.0001, 0.00001], t)
        case("Cast", [v], to=TensorProto.STRING, out_types=[TensorProto.STRING])
    for t in ("int32", "int64", "int8", "uint8", "bool"):
        case("Cast", [grid(t) if t != "bool" else np.array([True, False])], to=TensorProto.STRING, out_types=[TensorProto.STRING])


def reductions():
    x = f32(3, 4, 5)
    for op in "ReduceSum ReduceMean ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceProd ReduceLogSum ReduceLogSumExp".split():
        inputs = np.abs(x) if op == "ReduceLogSum" else x
        for axes in ([0], [1], [-1], [0, 2]):
            case(op, [inputs, np.array(axes, np.int64)], opset=21 if op != "ReduceSum" else 13)
            case(op, [inputs], opset=11, axes=axes, keepdims=0)
        case(op, [inputs], opset=11)
        for t in ("float64",) if op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp") else ("float64", "int32", "int64"):
            v = np.array([[3, 1, 4], [1, 5, 9]], t)
            case(op, [v], opset=11, axes=[1])
        if op not in ("ReduceMax", "ReduceMin"):  # whose answers with NaN depend on its place
            case(op, [np.array([[1, np.nan, 2], [np.inf, 1, 2], [-np.inf, 1, -2]], np.float32)], opset=11, axes=[1])
    case("ReduceSum", [x, np.array([], np.int64)], noop_with_empty_axes=1)
    case("ReduceSum", [EMPTY], opset=11, axes=[0])
    case("ReduceSum", [EMPTY], opset=11, axes=[1])
    for op in ("ArgMax", "ArgMin"):
        for t in NUMERIC:
            v = np.array([[3, 1, 3], [1, 9, 9], [0, 0, 0]], t)
            case(op, [v], axis=1)
            case(op, [v], axis=0, keepdims=0)
            case(op, [v], axis=-1, select_last_index=1)
        case(op, [EMPTY], axis=1)
    for t in NUMERIC:
        v = np.array([[3, 1, 3, 2], [1, 9, 9, -1]], t)
        case("TopK", [v, np.array([2], np.int64)], outputs=2, out_types=[types[np.dtype(t)], TensorProto.INT64])
        case("TopK", [v, np.array([3], np.int64)], outputs=2, largest=0, out_types=[types[np.dtype(t)], TensorProto.INT64])
        case("TopK", [v, np.array([1], np.int64)], outputs=2, axis=0, out_types=[types[np.dtype(t)], TensorProto.INT64])
        case("CumSum", [v, np.array(1, np.int64)])
    for op in ("Softmax", "LogSoftmax"):
        for opset in (11, 13):
            case(op, [x], opset=opset, axis=1)
            case(op, [x[0].astype(np.float64)], opset=opset)
        case(op, [np.array([[1000, 0, -1000], [1, 1, 1], [-np.inf, 0, 1]], np.float32)])
        case(op, [EMPTY])


def matrices():
    for t in ("float32", "float64"):
        a = lambda *s: f32(*s).astype(t)
        for s in (((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 70), (70, 33)), ((7, 200), (200, 65)), ((0, 4), (4, 2))):
            case("MatMul", [a(*s[0]), a(*s[1])])
        for ta, tb, c in itertools.product((0, 1), (0, 1), (None, (5,), (3, 1), (1, 5), (3, 5), ())):
            x, w = a(4, 3) if ta else a(3, 4), a(5, 4) if tb else a(4, 5)
            case("Gemm", [x, w] + ([a(*c)] if c is not None else []), transA=ta, transB=tb, alpha=0.5 if ta else 1.0, beta=2.0 if tb else 1.0)
    case("Gemm", [f32(3, 4), f32(5, 4), f32(5)], constants=[1, 2], transB=1)
    case("BatchNormalization", [f32(3, 4), f32(4), f32(4, seed=2), f32(4, seed=3), np.abs(f32(4, seed=4))], epsilon=1e-3)


def classical():
    ml = "ai.onnx.ml"
    g = grid("float32").reshape(-1, 2)
    ints = {t: np.array([[0, 1], [5, -3], [7, 100]], t) for t in NUMERIC}
    for t in NUMERIC:
        x = ints[t] if t[0] == "i" else grid(t).reshape(-1, 2)
        case("Scaler", [x], domain=ml, offset=[0.5, -1.5], scale=[2.0, 0.3])
        case("Scaler", [x], domain=ml, offset=[0.1], scale=[3.0])
        for norm in ("MAX", "L1", "L2"):
            v = ints[t] if t[0] == "i" else np.array([[1, 2], [0, 0], [-3, 4], [-1, -2], [1e-3, 5]], t)
            case("Normalizer", [v], domain=ml, norm=norm)
        case("LinearClassifier", [ints[t]], outputs=2, domain=ml, coefficients=[0.1, 0.2, -0.3, 0.4, 0.5, -0.6], intercepts=[0.1, 0.2, 0.3],
             classlabels_ints=[5, 6, 9], post_transform="NONE", out_types=[TensorProto.INT64, TensorProto.FLOAT])
        case("FeatureVectorizer", [ints[t], ints[t][:, :1]], domain=ml, inputdimensions=[2, 1])
        case("OneHotEncoder", [ints[t]], domain=ml, cats_int64s=[0, 5, 7, -3])
    for transform in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"):
        x = np.array([[0.1, 0.2], [3, -4], [0, 0], [-9, 8]], np.float32)
        case("LinearClassifier", [x], outputs=2, domain=ml, coefficients=[0.1, 0.2, -0.3, 0.4, 0.5, -0.6], intercepts=[0.1, 0.2, 0.3],
             classlabels_strings=["a", "b", "c"], post_transform=transform, out_types=[TensorProto.STRING, TensorProto.FLOAT])
        if transform != "PROBIT":  # whose second score is memory that nobody wrote
            case("LinearClassifier", [x], outputs=2, domain=ml, coefficients=[0.1, 0.2], intercepts=[0.1],
                 classlabels_ints=[3, 4], post_transform=transform, out_types=[TensorProto.INT64, TensorProto.FLOAT])
        case("LinearRegressor", [x], domain=ml, coefficients=[0.1, 0.2, 0.3, -0.2], intercepts=[0.1, 0.4], targets=2, post_transform=transform)
        case("LinearRegressor", [x], domain=ml, coefficients=[0.1, 0.2], post_transform=transform)
        for classes, ids, base in itertools.product((2, 3), ([0], [1], [0, 1]), (0, 1, 2, 3)):
            for sign in (1, -1):
                if len(ids) == 2 and classes == 2 and base != 2 and (sign < 0 or base == 1):
                    continue  # ONNX Runtime takes the second class wherever its score is above 0
                tree_case(x, classes, ids, base, sign, transform)
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            for targets, base in itertools.product((1, 2), (0, 1, 2)):
                tree_regressor(x, targets, base, aggregate, transform)
    case("Imputer", [g], domain=ml, imputed_value_floats=[9.0, 8.0], replaced_value_float=float("nan"))
    case("Imputer", [g], domain=ml, imputed_value_floats=[9.0], replaced_value_float=1.0)
    case("Imputer", [ints["int64"]], domain=ml, imputed_value_int64s=[9], replaced_value_int64=5)
    case("Binarizer", [g], domain=ml, threshold=0.5)
    words = np.array([["a", "b"], ["", "x"]], object)
    for version, keys, values, default in itertools.product((2, 4), ("strings", "int64s", "floats"), ("strings", "int64s", "floats"), (False, True)):
        k = {"strings": ["a", "b"], "int64s": [5, 7], "floats": [1.0, float("nan")]}[keys]
        v = {"strings": ["p", "q"], "int64s": [50, 70], "floats": [0.5, 0.25]}[values]
        x = {"strings": words, "int64s": ints["int64"], "floats": g}[keys]
        extra = {"strings": {"default_string": "?"}, "int64s": {"default_int64": 99}, "floats": {"default_float": 9.5}}[values] if default else {}
        out = {"strings": TensorProto.STRING, "int64s": TensorProto.INT64, "floats": TensorProto.FLOAT}[values]
        case("LabelEncoder", [x], domain=ml, ml=version, out_types=[out], **{"keys_" + keys: k, "values_" + values: v}, **extra)
    case("LabelEncoder", [words], domain=ml, ml=1, classes_strings=["b", "a"], default_int64=-7, out_types=[TensorProto.INT64])
    case("LabelEncoder", [np.array([0, 1, 2, -1], np.int64)], domain=ml, ml=1, classes_strings=["b", "a"], default_string="none", out_types=[TensorProto.STRING])
    t = lambda v, d: numpy_helper.from_array(np.array(v, d))
    for kd, vd in (("float64", "int64"), ("int64", "float64"), ("int32", "int16"), ("float32", "float32")):
        x = ints["int32"] if kd == "int32" else ints[kd]
        case("LabelEncoder", [x], domain=ml, ml=4, keys_tensor=t([5, 7, 0], kd), values_tensor=t([1, 2, 3], vd), default_tensor=t([42], vd), out_types=[types[np.dtype(vd)]])
    case("OneHotEncoder", [words], domain=ml, cats_strings=["a", "x", ""], out_types=[TensorProto.FLOAT])
    case("OneHotEncoder", [np.array(["a", "zz"], object)], domain=ml, cats_strings=["a", "x"], out_types=[TensorProto.FLOAT])
    case("CategoryMapper", [words], domain=ml, cats_int64s=[1, 2], cats_strings=["a", "x"], default_int64=-5, out_types=[TensorProto.INT64])
    case("CategoryMapper", [np.array([1, 2, 3], np.int64)], domain=ml, cats_int64s=[1, 2], cats_strings=["a", "x"], default_string="no", out_types=[TensorProto.STRING])
    for x in (f32(3, 4), ints["int64"], words, f32(4), f32(2, 3, 4)):
        case("ArrayFeatureExtractor", [x, np.array([1, 0], np.int64)], domain=ml, out_types=[types[x.dtype]])
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        x = f32(5, 3)
        case("SVMRegressor", [x], domain=ml, kernel_type=kernel, kernel_params=[0.3, 0.2, 3.0], support_vectors=list(f32(12, seed=3)), coefficients=list(f32(4, seed=4)), rho=[0.5], n_supports=4)
        case("SVMRegressor", [x], domain=ml, kernel_type=kernel, kernel_params=[0.3, 0.2, 2.0], support_vectors=list(f32(12, seed=3)), coefficients=list(f32(4, seed=4)), rho=[0.5], n_supports=4, one_class=1)
        for proba in (False, True):
            extra = {"prob_a": list(f32(3, seed=8)), "prob_b": list(f32(3, seed=9))} if proba else {}
            case("SVMClassifier", [x], outputs=2, domain=ml, kernel_type=kernel, kernel_params=[0.3, 0.2, 3.0], support_vectors=list(f32(15, seed=3)), coefficients=list(f32(10, seed=4)), rho=list(f32(3, seed=5)),
                 vectors_per_class=[2, 1, 2], classlabels_ints=[4, 5, 6], out_types=[TensorProto.INT64, TensorProto.FLOAT], **extra)
            extra = {"prob_a": [0.7], "prob_b": [-0.1]} if proba else {}
            case("SVMClassifier", [x], outputs=2, domain=ml, kernel_type=kernel, kernel_params=[0.3, 0.2, 3.0], support_vectors=list(f32(15, seed=3)), coefficients=list(f32(5, seed=4)), rho=[0.2],
                 vectors_per_class=[2, 3], classlabels_strings=["n", "y"], out_types=[TensorProto.STRING, TensorProto.FLOAT], **extra)
    case("SVMRegressor", [f32(4, 3)], domain=ml, coefficients=[0.1, -0.2, 0.3], rho=[0.5], n_supports=0, kernel_params=[0.0, 0.0, 0.0])


def tree_attributes(ids, sign, weights):
    """Two trees of three leaves; every comparison; leaves for the targets of ids in turn."""
    modes = ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_LT", "BRANCH_GTE", "LEAF", "LEAF", "LEAF"]
    a = dict(nodes_treeids=[0] * 5 + [1] * 5, nodes_nodeids=list(range(5)) * 2, nodes_modes=modes,
             nodes_featureids=[0, 0, 1, 0, 0, 1, 0, 0, 0, 0], nodes_values=[0.15, 0, -1, 0, 0, 0.2, 3, 0, 0, 0],
             nodes_truenodeids=[1, 0, 3, 0, 0, 1, 2, 0, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0, 4, 3, 0, 0, 0],
             nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 0, 1, 0, 0, 0])
    at = [(0, 1), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)]
    rows = [(t, n, i, w * (sign if j % 2 else 1)) for j, ((t, n), w) in enumerate(zip(at, (0.3, 0.7, 0.1, 0.2, 1.1, 0.4))) for i in (ids if len(ids) > 1 else ids)]
    a.update({weights + "_treeids": [r[0] for r in rows], weights + "_nodeids": [r[1] for r in rows],
              weights + "_ids": [r[2] for r in rows], weights + "_weights": [r[3] + 0.05 * r[2] for r in rows]})
    return a


def tree_case(x, classes, ids, base, sign, transform):
    if transform == "PROBIT" and classes == 2:
        return  # the second score is memory that nobody wrote
    a = tree_attributes(ids, sign, "class")
    if base:
        a["base_values"] = [0.25, -0.5, 0.125][:base]
    x = np.concatenate([x, np.array([[np.nan, 0], [0, np.nan], [np.inf, -np.inf]], np.float32)])
    case("TreeEnsembleClassifier", [x], outputs=2, domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2] if classes == 3 else [0, 1] if len(ids) > 1 else [10, 20], post_transform=transform,
         out_types=[TensorProto.INT64, TensorProto.FLOAT], **a)


def tree_regressor(x, targets, base, aggregate, transform):
    a = tree_attributes([0] if targets == 1 else [0, 1], -1, "target")
    if base:
        a["base_values"] = [0.25, -0.5][:base]
    for v in (x, x.astype(np.float64), np.array([[0, 1], [5, -3]], np.int64), np.array([[0, 1], [5, -3]], np.int32)):
        case("TreeEnsembleRegressor", [v], domain="ai.onnx.ml", n_targets=targets, aggregate_function=aggregate, post_transform=transform,
             out_types=[TensorProto.FLOAT], **a)


if __name__ == "__main__":
    elementwise()
    pairs()
    shapes()
    casts()
    reductions()
    matrices()
    classical()
    archive.close()
    print(sum(count.values()), "cases of", len(count), "operators;", len(refused), "refused by ONNX Runtime:")
    for r in refused:
        print(" ", r)

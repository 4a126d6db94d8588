"""Models of branches, loops, sequences, functions and text, with ONNX Runtime's answers.

As train.py, whose packages it needs; run it in this folder. ONNX Runtime's StringNormalizer
wants a locale that the machine has: C.UTF-8 here.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from skl2onnx import to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn import (calibration, datasets, ensemble, feature_extraction, gaussian_process, linear_model, multiclass,
                     multioutput, neighbors, pipeline)

import train

kernels = gaussian_process.kernels
text = feature_extraction.text
X, Y = datasets.make_classification(60, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=1)
X = X.astype(np.float32)
TWO, TARGET, TEST = (Y > 0).astype(int), (X @ np.arange(1, 5)).astype(np.float32), X[:16] + np.float32(0.01)
WORDS = np.array(["The first document.", "This document is the second, the second!", "", "Überfluß naïve café 42", "first\nfirst FIRST"])


def tensors(kind, name, value):
    """A sequence of tensors is one tensor for each."""
    if isinstance(value, list) and value and isinstance(value[0], (np.ndarray, list)):
        for i, v in enumerate(value):
            yield from tensors(kind, f"{name}/{i}", v)
        return
    a = np.asarray(train.as_array(value))
    if a.dtype.kind in "OU":
        yield helper.make_tensor(kind + name, TensorProto.STRING, a.shape, [str(x).encode() for x in a.ravel()])
    else:
        yield numpy_helper.from_array(np.array(a, order="C"), kind + name)


def save(name, model, inputs):
    run = train.session(model)
    names = [o.name for o in run.get_outputs()]
    all = [t for k, v in inputs.items() for t in tensors("in/", k, v)]
    all += [t for k, v in zip(names, run.run(None, inputs)) for t in tensors("out/", k, v)]
    onnx.save(model, name + ".onnx")
    onnx.save(helper.make_model(helper.make_graph([], "golden", [], [], initializer=all)), name + ".golden")
    print(name, model.ByteSize())


def learned(name, estimator, test=TEST, types=None, **options):
    m = to_onnx(estimator, None if types else test[:1], initial_types=types, options=options or None, target_opset={"": 21, "ai.onnx.ml": 3})
    for n in m.graph.node:
        for a in n.attribute:
            if n.op_type == "StringNormalizer" and a.name == "locale":
                a.s = b"C.UTF-8"
        if n.op_type == "StringNormalizer" and "locale" not in [a.name for a in n.attribute]:
            n.attribute.append(helper.make_attribute("locale", "C.UTF-8"))
    save(name, m, {m.graph.input[0].name: test})


def neighbours():
    for metric in ("euclidean", "manhattan"):
        for weights in ("uniform", "distance"):
            learned(f"knn_{metric}_{weights}", neighbors.KNeighborsClassifier(3, metric=metric, weights=weights, algorithm="brute").fit(X, Y))
    learned("knn_cdist", neighbors.KNeighborsClassifier(3, weights="distance").fit(X, Y), optim="cdist")
    learned("knn_regressor", neighbors.KNeighborsRegressor(3).fit(X, TARGET))
    learned("lof", neighbors.LocalOutlierFactor(5, novelty=True).fit(X))
    learned("radius", neighbors.RadiusNeighborsRegressor(20.0).fit(X, TARGET))
    learned("calibrated_knn", calibration.CalibratedClassifierCV(neighbors.KNeighborsClassifier(3), cv=2).fit(X, Y))
    learned("stacked_knn", ensemble.StackingClassifier([("a", neighbors.KNeighborsClassifier(3)), ("b", linear_model.LogisticRegression())], cv=2).fit(X, Y))


def processes():
    for name, k in dict(rbf=kernels.RBF(1.5), matern=kernels.Matern(1.0, nu=1.5), quadratic=kernels.RationalQuadratic()).items():
        g = gaussian_process.GaussianProcessRegressor(k, optimizer=None, alpha=0.1).fit(X.astype(np.float64), TARGET.astype(np.float64))
        learned("process_" + name, g, TEST.astype(np.float64))


def several():
    both = np.stack([TWO, Y], 1)
    learned("outputs", multioutput.MultiOutputClassifier(linear_model.LogisticRegression()).fit(X, both), zipmap=False)
    learned("outputs_knn", multioutput.MultiOutputClassifier(neighbors.KNeighborsClassifier(3)).fit(X, both), zipmap=False)
    learned("rest", multiclass.OneVsRestClassifier(linear_model.LogisticRegression()).fit(X, Y))


def words():
    types = [("input", StringTensorType([None]))]
    for name, v in dict(count=text.CountVectorizer(), pairs=text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
                        case=text.CountVectorizer(lowercase=False), letters=text.CountVectorizer(analyzer="char", ngram_range=(1, 2))).items():
        learned("text_" + name, v.fit(WORDS), WORDS, types)
    learned("text_separated", text.TfidfVectorizer().fit(WORDS), WORDS, types, separators=[" ", "[.]", ",", "\\!"])
    learned("text_logistic", pipeline.make_pipeline(text.TfidfVectorizer(), linear_model.LogisticRegression()).fit(WORDS, np.arange(5) % 2), WORDS, types)


def loop():
    """y is x, doubled n times; a model whose time the request decides."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["on_out"]), helper.make_node("Add", ["v", "v"], ["v_out"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info("on_out", TensorProto.BOOL, []), helper.make_tensor_value_info("v_out", TensorProto.FLOAT, [None, 2])])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], "g",
        [helper.make_tensor_value_info("n", TensorProto.INT64, []), helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    save("loop", m, {"n": np.array(5), "x": np.array([[1, -2], [0.5, 3]], np.float32)})


def branch():
    """The rows' sum decides the branch, which reads a value of the graph around."""
    def graph(name, op):
        return helper.make_graph([helper.make_node(op, ["z", "x"], [name])], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 2])])
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Greater", ["s", "zero"], ["c"]), helper.make_node("Exp", ["x"], ["z"]),
             helper.make_node("If", ["c"], ["y"], then_branch=graph("a", "Add"), else_branch=graph("b", "Mul"))]
    g = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 2])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 2])], [numpy_helper.from_array(np.float32(0), "zero")])
    save("branch", helper.make_model(g, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), {"x": np.array([[1, -2], [0.5, 0.25]], np.float32)})


if __name__ == "__main__":
    neighbours()
    processes()
    several()
    words()
    loop()
    branch()

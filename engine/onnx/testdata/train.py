"""Trains small models, converts them to ONNX and writes what ONNX Runtime answers.

Needs from PyPI: numpy, scikit-learn, skl2onnx, onnxmltools, xgboost (or xgboost-cpu),
lightgbm, catboost, onnx, onnxruntime. Seeds are fixed; ONNX Runtime computes on one
thread. For each model NAME.onnx the golden file NAME.golden is a ModelProto whose
initializers are the inputs ("in/...") and the outputs ("out/...", bit by bit); for
scikit-learn's models also its own answer in float64 ("library/...").
Run it in this folder.
"""

import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxmltools.convert import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as MLFloat
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (compose, datasets, decomposition, ensemble, impute, linear_model, naive_bayes, neural_network,
                     pipeline, preprocessing, svm, tree)

warnings.filterwarnings("ignore")

# skl2onnx writes lists of numpy's booleans for histogram boosting, which onnx refuses.
make_attribute = helper.make_attribute
helper.make_attribute = lambda key, value, *a, **k: make_attribute(
    key, [int(v) if isinstance(v, (bool, np.bool_, np.integer)) else v for v in value] if isinstance(value, list) else value, *a, **k)
rng = np.random.RandomState(20261122)


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def as_array(value):
    """A list of maps by class becomes a table of probabilities."""
    if isinstance(value, list):
        return np.array([[row[k] for k in row] for row in value], dtype=np.float32)
    return value


def golden(model, inputs, library=None):
    run = session(model)
    names = [o.name for o in run.get_outputs()]
    outputs = run.run(None, inputs)
    tensors = [numpy_helper.from_array(np.asarray(v), "in/" + k) for k, v in inputs.items()]
    for name, value in zip(names, outputs):
        a = as_array(value)
        if a.dtype.kind in "OU":
            t = helper.make_tensor("out/" + name, TensorProto.STRING, a.shape, [str(x).encode() for x in a.ravel()])
        else:
            t = numpy_helper.from_array(np.array(a, order="C"), "out/" + name)
        tensors.append(t)
    if library is not None and np.asarray(outputs[-1] if not isinstance(outputs[-1], list) else as_array(outputs[-1])).size == library.size:
        tensors.append(numpy_helper.from_array(np.ascontiguousarray(library, dtype=np.float64), "library/" + names[-1]))
    graph = helper.make_graph([], "golden", [], [], initializer=tensors)
    return helper.make_model(graph)


def save(name, model, inputs, library=None):
    model.doc_string = ""
    model.graph.doc_string = ""
    try:
        g = golden(model, inputs, library)
    except Exception as e:  # a converted model that ONNX Runtime itself refuses
        print(f"{name}: refused by ONNX Runtime: {str(e).splitlines()[0][:200]}")
        return
    onnx.save(model, name + ".onnx")
    onnx.save(g, name + ".golden")
    print(f"{name}: {model.ByteSize()} bytes, golden {g.ByteSize()}, operators",
          sorted({(n.domain + "." if n.domain else "") + n.op_type for n in model.graph.node}))


def rows(n=40, d=6):
    return rng.randn(n, d).astype(np.float32)


def sk(name, estimator, x, y, test=None, types=None, options=None, opset=None):
    estimator.fit(x, y)
    test = x[:40] if test is None else test
    try:
        m = to_onnx(estimator, test[:1] if types is None else None, initial_types=types, options=options,
                    target_opset=opset or {"": 21, "ai.onnx.ml": 3})
    except Exception as e:  # a converter that does not know today's scikit-learn
        print(f"{name}: not converted: {str(e).splitlines()[0][:200]}")
        return
    wide = test.astype(np.float64)
    library = estimator.predict_proba(wide) if hasattr(estimator, "predict_proba") else estimator.predict(wide)
    save(name, m, {m.graph.input[0].name: test}, library if library.dtype.kind == "f" else None)


def numeric():
    x = rows(400, 6)
    y = (x[:, 0] - 2 * x[:, 1] + x[:, 2] * x[:, 3] + 0.1 * rng.randn(400)).astype(np.float32)
    return x, y, (y > 0.2).astype(np.int64), np.digitize(y, [-1, 1]).astype(np.int64)


def linear(x, y, two, three):
    sk("linear", linear_model.LinearRegression(), x, y)
    sk("ridge_double", linear_model.Ridge(), x.astype(np.float64), y)
    sk("logistic", linear_model.LogisticRegression(), x, two)
    sk("logistic_three", linear_model.LogisticRegression(), x, three, options={"zipmap": False})
    words = np.array(["no", "maybe", "yes"])[three]
    sk("logistic_words", linear_model.LogisticRegression(), x, words)
    sk("sgd", linear_model.SGDClassifier(random_state=1, loss="modified_huber"), x, three, options={"zipmap": False})


def forests(x, y, two, three):
    sk("forest", ensemble.RandomForestRegressor(n_estimators=10, max_depth=5, random_state=1), x, y)
    sk("forest_two", ensemble.RandomForestClassifier(n_estimators=10, max_depth=4, random_state=1), x, two, options={"zipmap": False})
    sk("forest_three", ensemble.RandomForestClassifier(n_estimators=10, max_depth=4, random_state=1), x, three)
    sk("extra", ensemble.ExtraTreesClassifier(n_estimators=8, max_depth=4, random_state=1), x, three, options={"zipmap": False})
    sk("forest_targets", ensemble.RandomForestRegressor(n_estimators=5, max_depth=4, random_state=1), x, np.stack([y, y * 2, -y], 1))
    sk("boosting", ensemble.GradientBoostingRegressor(n_estimators=20, random_state=1), x, y)
    sk("boosting_two", ensemble.GradientBoostingClassifier(n_estimators=15, random_state=1), x, two, options={"zipmap": False})
    sk("boosting_three", ensemble.GradientBoostingClassifier(n_estimators=8, random_state=1), x, three, options={"zipmap": False})
    holes = x.copy()
    holes[rng.rand(*x.shape) < 0.15] = np.nan
    sk("hist", ensemble.HistGradientBoostingRegressor(max_iter=15, random_state=1), holes, y)
    sk("hist_three", ensemble.HistGradientBoostingClassifier(max_iter=6, random_state=1), holes, three, options={"zipmap": False})
    sk("isolation", ensemble.IsolationForest(n_estimators=8, random_state=1), x, y)
    sk("adaboost", ensemble.AdaBoostClassifier(n_estimators=5, random_state=1), x, three, options={"zipmap": False})
    sk("voting", ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))]), x, y)
    sk("bagging", ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=3), 5, random_state=1), x, two,
       options={"zipmap": False})


def perceptrons(x, y, two, three):
    for act in ("relu", "tanh", "logistic"):
        sk("mlp_" + act, neural_network.MLPRegressor(hidden_layer_sizes=(24, 12), activation=act, max_iter=60, random_state=1), x, y)
    sk("mlp_two", neural_network.MLPClassifier(hidden_layer_sizes=(16,), max_iter=60, random_state=1), x, two, options={"zipmap": False})
    sk("mlp_three", neural_network.MLPClassifier(hidden_layer_sizes=(33,), max_iter=60, random_state=1), x, three)


def vectors(x, y, two, three):
    x, y, two, three = x[:120], y[:120], two[:120], three[:120]
    sk("svr_rbf", svm.SVR(), x, y)
    sk("svr_poly", svm.SVR(kernel="poly"), x, y)
    sk("svc_linear", svm.SVC(kernel="linear", random_state=1), x, two, options={"zipmap": False})
    sk("svc_three", svm.SVC(random_state=1), x, three, options={"zipmap": False})
    sk("svc_probability", svm.SVC(probability=True, random_state=1), x, three, options={"zipmap": False})
    sk("svc_linear_three", svm.LinearSVC(random_state=1), x, three)


def pipelines(x, y, two, three):
    make = pipeline.make_pipeline
    holes = x.copy()
    holes[rng.rand(*x.shape) < 0.15] = np.nan
    sk("scaled", make(preprocessing.StandardScaler(), linear_model.LogisticRegression()), x, three, options={"zipmap": False})
    sk("imputed", make(impute.SimpleImputer(), preprocessing.MinMaxScaler(), linear_model.Ridge()), holes, y)
    sk("bins", make(preprocessing.KBinsDiscretizer(n_bins=4, encode="onehot-dense", strategy="quantile"), linear_model.Ridge()), x, y)
    sk("bins_ordinal", make(preprocessing.KBinsDiscretizer(n_bins=4, encode="ordinal"), linear_model.Ridge()), x, y)
    sk("normalised", make(preprocessing.Normalizer(), linear_model.Ridge()), x, y)
    sk("pca", make(preprocessing.RobustScaler(), decomposition.PCA(n_components=3), linear_model.LogisticRegression()), x, two)
    sk("polynomial", make(preprocessing.PolynomialFeatures(degree=2), linear_model.Ridge()), x, y)
    sk("naive", naive_bayes.GaussianNB(), x, three, options={"zipmap": False})
    sk("power", make(preprocessing.PowerTransformer(), linear_model.Ridge()), x, y)
    sk("quantile", make(preprocessing.QuantileTransformer(n_quantiles=10), linear_model.Ridge()), x, y)


def columns(two):
    """Columns by name, of numbers, integers and words, with words that training has not seen."""
    n = 300
    age, income = rng.rand(n, 1).astype(np.float32) * 60 + 18, rng.lognormal(10, 1, (n, 1)).astype(np.float32)
    city = rng.choice(["Aachen", "Berlin", "Köln"], (n, 1))
    kind = rng.choice([1, 2, 5, 9], (n, 1)).astype(np.int64)
    target = ((age[:, 0] > 40) ^ (city[:, 0] == "Berlin") ^ (kind[:, 0] > 4)).astype(np.int64)
    import pandas as pd
    table = pd.DataFrame({"age": age[:, 0], "income": income[:, 0], "city": city[:, 0], "kind": kind[:, 0]})
    table.loc[table.index % 9 == 0, "income"] = np.nan
    prepare = compose.ColumnTransformer([
        ("number", pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), preprocessing.StandardScaler()), ["age", "income"]),
        ("word", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["city"]),
        ("kind", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["kind"]),
    ])
    types = [("age", FloatTensorType([None, 1])), ("income", FloatTensorType([None, 1])),
             ("city", StringTensorType([None, 1])), ("kind", Int64TensorType([None, 1]))]
    inputs = {"age": age[:40], "income": table["income"].to_numpy(np.float32)[:40, None],
              "city": city[:40].astype(object), "kind": kind[:40].copy()}
    inputs["city"][3, 0], inputs["city"][4, 0], inputs["kind"][5, 0] = "Ulm", "", 77
    for name, last in (("columns", linear_model.LogisticRegression()),
                       ("columns_forest", ensemble.RandomForestClassifier(n_estimators=8, max_depth=4, random_state=1)),
                       ("columns_mlp", neural_network.MLPClassifier(hidden_layer_sizes=(12,), max_iter=50, random_state=1))):
        p = pipeline.Pipeline([("prepare", prepare), ("last", last)]).fit(table, target)
        m = to_onnx(p, initial_types=types, target_opset={"": 21, "ai.onnx.ml": 3})
        save(name, m, inputs)
    order = pipeline.Pipeline([("prepare", compose.ColumnTransformer([
        ("word", preprocessing.OrdinalEncoder(), ["city"]), ("number", "passthrough", ["age"])])),
        ("last", tree.DecisionTreeClassifier(max_depth=4, random_state=1))]).fit(table, target)
    m = to_onnx(order, initial_types=[types[0], types[2]], target_opset={"": 21, "ai.onnx.ml": 3})
    save("ordinal", m, {"age": inputs["age"], "city": city[:40].astype(object)})


def boosters(x, y, two, three):
    import xgboost
    import lightgbm
    import catboost
    holes = x.copy()
    holes[rng.rand(*x.shape) < 0.15] = np.nan
    types = [("input", MLFloat([None, 6]))]
    for name, model, target in (
            ("xgboost", xgboost.XGBRegressor(n_estimators=20, max_depth=4), y),
            ("xgboost_two", xgboost.XGBClassifier(n_estimators=20, max_depth=3), two),
            ("xgboost_three", xgboost.XGBClassifier(n_estimators=10, max_depth=3), three)):
        m = convert_xgboost(model.fit(holes, target), initial_types=types, target_opset=15)
        save(name, m, {"input": holes[:40]})
    for name, model, target in (
            ("lightgbm", lightgbm.LGBMRegressor(n_estimators=20, num_leaves=15, verbose=-1), y),
            ("lightgbm_two", lightgbm.LGBMClassifier(n_estimators=20, num_leaves=7, verbose=-1), two),
            ("lightgbm_three", lightgbm.LGBMClassifier(n_estimators=8, num_leaves=7, verbose=-1), three)):
        m = convert_lightgbm(model.fit(holes, target), initial_types=types, target_opset=15, zipmap=name != "lightgbm_two")
        save(name, m, {"input": holes[:40]})
    for name, model, target in (
            ("catboost", catboost.CatBoostRegressor(iterations=20, depth=4, verbose=0, random_seed=1), y),
            ("catboost_two", catboost.CatBoostClassifier(iterations=20, depth=4, verbose=0, random_seed=1), two),
            ("catboost_three", catboost.CatBoostClassifier(iterations=8, depth=3, verbose=0, random_seed=1), three)):
        model.fit(x, target)
        with tempfile.TemporaryDirectory() as folder:
            model.save_model(folder + "/model.onnx", format="onnx")
            m = onnx.load(folder + "/model.onnx")
        save(name, m, {m.graph.input[0].name: x[:40]})


def fifth_set():
    """TreeEnsemble of ai.onnx.ml 5, by hand: two trees, all comparisons, sets of members, both types."""
    for dtype, elem in ((np.float32, TensorProto.FLOAT), (np.float64, TensorProto.DOUBLE)):
        t = lambda name, v: numpy_helper.from_array(np.array(v, dtype=dtype), name)
        for aggregate in range(4):
            node = helper.make_node(
                "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=2, aggregate_function=aggregate, post_transform=0,
                tree_roots=[0, 3], nodes_modes=numpy_helper.from_array(np.array([0, 6, 3, 1, 2, 6, 4, 5], dtype=np.uint8), "modes"),
                nodes_featureids=[0, 1, 2, 0, 1, 2, 1, 0], nodes_splits=t("splits", [0.25, 0, -0.5, 0.25, 1, 0, 3, 0.5]),
                nodes_truenodeids=[1, 0, 1, 4, 6, 4, 6, 7], nodes_trueleafs=[0, 1, 1, 0, 0, 1, 1, 1],
                nodes_falsenodeids=[2, 2, 3, 5, 7, 5, 0, 1], nodes_falseleafs=[0, 1, 1, 0, 0, 1, 1, 1],
                nodes_missing_value_tracks_true=[1, 0, 1, 0, 1, 1, 0, 0],
                membership_values=t("members", [1, 2, 7, np.nan, 3, 31, 40]),
                leaf_targetids=[0, 1, 0, 1, 0, 1, 0, 1],
                leaf_weights=t("weights", [0.1, -1.3, 2.7, 0.4, -0.9, 5.5, 1e-3, 7]))
            graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", elem, [None, 3])],
                                      [helper.make_tensor_value_info("y", elem, [None, 2])])
            m = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5), helper.make_opsetid("", 21)], ir_version=10)
            x = rng.choice([-1, 0, 0.25, 0.5, 1, 2, 3, 7, 31, 40, 2.5, -3, np.nan, np.inf, -np.inf], (60, 3)).astype(dtype)
            save(f"fifth_{np.dtype(dtype).name}_{['average', 'sum', 'min', 'max'][aggregate]}", m, {"x": x})


if __name__ == "__main__":
    data = numeric()
    linear(*data)
    forests(*data)
    perceptrons(*data)
    vectors(*data)
    pipelines(*data)
    columns(data[2])
    boosters(*data)
    fifth_set()

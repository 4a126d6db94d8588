#!/usr/bin/env python3
"""Trains the models that engine/gbdt is compared with, and stores them with rows and the libraries' own predictions.

Needs from PyPI: numpy xgboost lightgbm catboost (the golden files were written with xgboost-cpu 3.2.0, lightgbm 4.7.0,
catboost 1.2.10). Seeds are fixed and one thread trains, so that the same versions give the same files.

    train.py FOLDER            writes the golden files of testdata/golden: small models, some 300 rows each
    train.py FOLDER --large    writes large models with 20,000 rows each, for a check outside the tree:
                               WEIR_TEST_GBDT_GOLDEN=FOLDER go test ./engine/gbdt -run Golden -v

Golden files with a release in their names are those cases with that release of the library (LightGBM 2.2.3 takes a model
as a file only). The formats changed with XGBoost 1.6, 3.1 and 3.2, and LightGBM 2.3, 3.0 and 4.0.

A golden file is compressed with gzip: a line of JSON, then the model's bytes, the rows, the margins and the outputs, as
little-endian floats of the widths that the line gives. Rows hold what trees trip over: thresholds of the model and
their neighbours on both sides, NaN, infinities, zeros of both signs, tiny and huge values, categories never seen.
"""
import argparse
import gzip
import json
import math
import os

import numpy as np

CATEGORIES = [-1, -0.5, 0.5, 1.9, 31, 32, 33, 1000, 16777215, 16777216, 3e9, -3e9]


class Case:
    loss = ""  # of a file that stands for it
    best_iteration = False  # the predictions are those of the iterations that early stopping chose

    def __init__(self, name, large, features=8, categorical=(), missing=False, zeros=False, classes=0, dtype=np.float32):
        self.name, self.large, self.features = name, large, features
        self.categorical, self.missing, self.dtype = list(categorical), missing, dtype
        self.rng = np.random.default_rng(sum(name.encode()))
        n = 20000 if large else 1500
        x = self.draw(n)
        if zeros:
            x[self.rng.random(x.shape) < 0.3] = 0
        self.x = x
        full = np.nan_to_num(x.astype(np.float64))
        score = 2 * np.sin(full[:, 0]) + full[:, 1] * full[:, 2] + np.abs(full[:, 3]) - 0.7 * full[:, 4]
        for c in self.categorical:
            score += np.sin(full[:, c] * 1.7) * 2
        self.score = score + self.rng.normal(size=n) * 0.3
        if classes:
            cuts = np.quantile(self.score, np.linspace(0, 1, classes + 1)[1:-1])
            self.y = np.searchsorted(cuts, self.score)
        else:
            self.y = self.score

    def draw(self, n):
        # Values on a grid compress well and meet thresholds often.
        x = np.round(self.rng.normal(size=(n, self.features)) * 64) / 64
        if self.large:
            x = self.rng.normal(size=(n, self.features))
        for i, c in enumerate(self.categorical):
            x[:, c] = self.rng.integers(0, [6, 60, 300][i % 3], size=n)
        x = x.astype(self.dtype)
        if self.missing:
            x[self.rng.random(x.shape) < 0.1] = np.nan
        return x

    def rows(self, thresholds, nan_in=None, infinite=True):
        """Rows to predict; thresholds has the list of each feature's thresholds in the model."""
        n = 20000 if self.large else 320
        x = self.draw(n)
        plain = n // 4
        for r in range(plain, n):
            for f in self.rng.choice(self.features, size=self.rng.integers(1, 4), replace=False):
                x[r, f] = self.special(f, thresholds[f], nan_in is None or f in nan_in, infinite)
        return x

    def special(self, f, thresholds, nan, infinite):
        inf = self.dtype(np.inf)
        if f in self.categorical and self.rng.random() < 0.7:
            return self.rng.choice(CATEGORIES)
        kind = self.rng.integers(0, 8)
        if kind < 4 and len(thresholds):
            t = self.dtype(thresholds[self.rng.integers(len(thresholds))])
            return [t, np.nextafter(t, inf), np.nextafter(t, -inf), t][kind]
        if kind < 6 and nan:
            return np.nan
        choices = [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, 2e-35, 1e-40, -1e-45, 1e30, -1e30, 3.4e38, -3.4e38]
        if infinite:
            choices += [np.inf, -np.inf]
        if self.dtype is np.float64:
            choices += [1e300, -1e300, 5e-324, 1.0000000180025095e-35, -1.0000000180025095e-35]
        return self.rng.choice(choices)

    def store(self, folder, model, rows, margins, outputs, library):
        n = len(rows)
        kind = margins.dtype
        header = {"library": library, "model": len(model), "rows": n, "features": rows.shape[1],
                  "margins": margins.size // n, "outputs": outputs.size // n,
                  "row_bytes": rows.dtype.itemsize, "value_bytes": kind.itemsize}
        header |= {"loss": self.loss} if self.loss else {}
        header |= {"best_iteration": True} if self.best_iteration else {}
        assert outputs.dtype == kind, (outputs.dtype, kind)
        parts = [json.dumps(header).encode() + b"\n", model, np.ascontiguousarray(rows).tobytes(),
                 np.ascontiguousarray(margins).tobytes(), np.ascontiguousarray(outputs).tobytes()]
        path = os.path.join(folder, self.name + ".gz")
        with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
            f.write(b"".join(parts))
        print(f"{self.name}: {n} rows, model {len(model)} bytes, file {os.path.getsize(path)} bytes")


# XGBoost

def xgboost_thresholds(booster, features):
    lists = [set() for _ in range(features)]
    for tree in json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"].get("model", {}).get("trees", []):
        for left, f, t in zip(tree["left_children"], tree["split_indices"], tree["split_conditions"]):
            if left >= 0:
                lists[f].add(t)
    return [sorted(s) for s in lists]


def xgboost_predict(booster, rows, types, margin):
    """Predicts rows with infinities too, which DMatrix takes only where the other infinity is the missing value."""
    import xgboost as xgb
    result = None
    up, down = np.isinf(rows) & (rows > 0), np.isinf(rows) & (rows < 0)
    for mask, missing in [(~down.any(axis=1), -np.inf), (down.any(axis=1), np.inf)]:
        if not mask.any():
            continue
        d = xgb.DMatrix(rows[mask], missing=missing, feature_types=types, enable_categorical=types is not None)
        p = booster.predict(d, output_margin=margin)
        if result is None:
            result = np.zeros((len(rows),) + p.shape[1:], dtype=p.dtype)
        result[mask] = p
    assert not (up & down).any()
    return result


def xgboost_case(folder, large, name, params, classes=0, ubj=False, categorical=(), missing=False, targets=0, rounds=0, group=0,
                 positive=False, edit=None):
    import xgboost as xgb
    c = Case(name, large, categorical=categorical, missing=missing, classes=classes)
    y = np.exp(np.clip(c.y, -3, 3)) if positive else c.y
    if targets:
        y = np.stack([np.roll(c.y, i) * (i + 1) for i in range(targets)], axis=1)
    if group:
        y = np.clip(np.floor(c.y - c.y.min()), 0, 5)
    types = ["c" if i in c.categorical else "q" for i in range(c.features)] if categorical else None
    d = xgb.DMatrix(c.x, y, feature_types=types, enable_categorical=bool(categorical))
    if group:
        d.set_group([group] * (len(y) // group))
    defaults = {"seed": 7, "nthread": 1, "max_depth": 6, "eta": 0.3}
    rounds = rounds or 12
    if large:
        rounds = 500 // max(classes, targets, 1)
        defaults["eta"] = 0.05
    booster = xgb.train({**defaults, **params}, d, rounds)
    model = bytes(booster.save_raw("ubj" if ubj else "json"))
    if edit:
        model = edit(model)
    booster = xgb.Booster()
    booster.load_model(bytearray(model))
    rows = c.rows(xgboost_thresholds(booster, c.features))
    rows[(np.isposinf(rows).any(axis=1) & np.isneginf(rows).any(axis=1))] = 0
    margins = xgboost_predict(booster, rows, types, True)
    outputs = xgboost_predict(booster, rows, types, False)
    c.store(folder, model, rows, margins, outputs, "xgboost " + xgb.__version__)


def as_version_1(model):
    """Writes a model as XGBoost 1.5 did: a scalar base score, booleans, no categories of a data frame."""
    j = json.loads(model)
    p = j["learner"]["learner_model_param"]
    p["base_score"] = p["base_score"].strip("[]")
    del p["num_target"], p["boost_from_average"]
    j["version"] = [1, 5, 0]
    m = j["learner"]["gradient_booster"]["model"]
    m.pop("cats", None)
    m.pop("iteration_indptr", None)
    for t in m["trees"]:
        t["default_left"] = [bool(x) for x in t["default_left"]]
    return json.dumps(j).encode()


def xgboost_cases(folder, large):
    def case(*args, **kwargs):
        xgboost_case(folder, large, *args, **kwargs)
    case("xgboost-regression", {"objective": "reg:squarederror"}, ubj=True)
    case("xgboost-missing", {"objective": "reg:squarederror"}, missing=True)
    case("xgboost-binary", {"objective": "binary:logistic"}, classes=2, missing=True)
    case("xgboost-version-1", {"objective": "binary:logistic", "base_score": 0.3}, classes=2, edit=as_version_1)
    case("xgboost-multiclass", {"objective": "multi:softprob", "num_class": 4, "max_depth": 4}, classes=4, ubj=True, missing=True)
    case("xgboost-softmax", {"objective": "multi:softmax", "num_class": 3, "max_depth": 4}, classes=3)
    case("xgboost-rank", {"objective": "rank:ndcg"}, group=50, ubj=True)
    case("xgboost-categorical", {"objective": "reg:squarederror", "max_cat_to_onehot": 8}, categorical=[5, 6, 7], missing=True)
    case("xgboost-categorical-ubj", {"objective": "binary:logistic", "max_cat_to_onehot": 1}, classes=2, categorical=[5, 6], ubj=True)
    case("xgboost-dart", {"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.4, "one_drop": 1}, missing=True,
         rounds=20)
    case("xgboost-dart-binary", {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.2}, classes=2, ubj=True)
    case("xgboost-dart-zero-leaves", {"objective": "binary:logistic", "booster": "dart", "max_depth": 5, "alpha": 0.5, "lambda": 0, "gamma": 0.1},
         classes=2, rounds=1)
    case("xgboost-poisson", {"objective": "count:poisson"}, positive=True)
    case("xgboost-tweedie", {"objective": "reg:tweedie"}, positive=True, ubj=True)
    case("xgboost-forest", {"objective": "reg:squarederror", "num_parallel_tree": 5, "subsample": 0.6, "colsample_bynode": 0.6,
                            "max_depth": 5}, ubj=True, rounds=3)
    case("xgboost-leafwise", {"objective": "reg:squarederror", "grow_policy": "lossguide", "max_depth": 0, "max_leaves": 80,
                              "min_child_weight": 0}, ubj=True, rounds=6)
    case("xgboost-targets", {"objective": "reg:squarederror", "max_depth": 4}, targets=3)
    case("xgboost-vector-leaf", {"objective": "reg:squarederror", "max_depth": 4, "multi_strategy": "multi_output_tree"}, targets=3,
         ubj=True)
    case("xgboost-hinge", {"objective": "binary:hinge"}, classes=2)


# LightGBM

def lightgbm_case(folder, large, name, params, classes=0, categorical=(), missing=False, zeros=False, positive=False, group=0, rounds=0,
                  edit=None):
    import lightgbm as lgb
    c = Case(name, large, categorical=categorical, missing=missing, zeros=zeros, classes=classes, dtype=np.float64)
    y = np.exp(np.clip(c.y, -3, 3)) if positive else c.y
    if params["objective"].startswith("cross_entropy"):
        y = 1 / (1 + np.exp(-c.score))
    if group:
        y = np.clip(np.floor(c.y - c.y.min()), 0, 5)
    defaults = {"seed": 7, "num_threads": 1, "verbose": -1, "deterministic": True, "num_leaves": 31}
    if large:
        defaults |= {"num_leaves": 63, "learning_rate": 0.05}
        params = {k: v for k, v in params.items() if k != "num_leaves"} | ({"num_leaves": 500} if "num_leaves" in params else {})
    d = lgb.Dataset(c.x, y, categorical_feature=c.categorical or "auto", group=[group] * (len(y) // group) if group else None,
                    params={"verbose": -1, "zero_as_missing": params.get("zero_as_missing", False)}, free_raw_data=False)
    rounds = 500 // max(classes if "multiclass" in params["objective"] else 1, 1) if large else rounds or 12
    booster = lgb.train({**defaults, **params}, d, rounds)
    model = booster.model_to_string()
    # Parameters and importances are no part of a prediction, and most of a small file.
    model = model[:model.index("end of trees") + len("end of trees")] + "\n"
    if edit:
        model = edit(model)
    booster = lgb.Booster(model_str=model)
    lists = [set() for _ in range(c.features)]
    for tree in booster.dump_model()["tree_info"]:
        stack = [tree["tree_structure"]]
        while stack:
            node = stack.pop()
            if "split_feature" in node:
                if node["decision_type"] == "<=":
                    lists[node["split_feature"]].add(node["threshold"])
                stack += [node["left_child"], node["right_child"]]
    rows = c.rows([sorted(s) for s in lists])
    outputs = booster.predict(rows, num_threads=1)
    margins = booster.predict(rows, num_threads=1, raw_score=True)
    if params.get("boosting") == "rf":
        margins = outputs  # the raw score is the sum here, and no objective with a transformation is used
    c.store(folder, model.encode(), rows, margins, outputs, "lightgbm " + lgb.__version__)


def as_version_2(model):
    """Writes a model as LightGBM 2 did: another version, no sizes of trees, and, as on Windows, other ends of lines."""
    lines = [line for line in model.split("\n") if not line.startswith(("tree_sizes=", "is_linear="))]
    return "\n".join(lines).replace("version=v4", "version=v2").replace("\n", "\r\n").replace("tree\r\n", "tree\n", 1)


def lightgbm_cases(folder, large):
    def case(*args, **kwargs):
        lightgbm_case(folder, large, *args, **kwargs)
    case("lightgbm-regression", {"objective": "regression"})
    case("lightgbm-missing", {"objective": "regression_l1"}, missing=True)
    case("lightgbm-binary", {"objective": "binary", "sigmoid": 0.7}, classes=2)
    case("lightgbm-multiclass", {"objective": "multiclass", "num_class": 4, "num_leaves": 15}, classes=4, missing=True)
    case("lightgbm-one-vs-all", {"objective": "multiclassova", "num_class": 3, "num_leaves": 15}, classes=3)
    case("lightgbm-categorical", {"objective": "binary", "cat_smooth": 1, "min_data_per_group": 5}, classes=2, categorical=[5, 6, 7],
         missing=True)
    case("lightgbm-forest", {"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6,
                             "feature_fraction": 0.7})
    case("lightgbm-linear", {"objective": "regression", "linear_tree": True, "num_leaves": 8}, missing=True)
    case("lightgbm-linear-zeros", {"objective": "binary", "linear_tree": True, "num_leaves": 8}, classes=2, zeros=True)
    case("lightgbm-deep", {"objective": "regression", "num_leaves": 200, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0}, rounds=5)
    case("lightgbm-zero-as-missing", {"objective": "regression", "zero_as_missing": True}, zeros=True, missing=True)
    case("lightgbm-no-missing", {"objective": "regression", "use_missing": False}, zeros=True)
    case("lightgbm-poisson", {"objective": "poisson"}, positive=True)
    case("lightgbm-sqrt", {"objective": "regression", "reg_sqrt": True})
    case("lightgbm-cross-entropy-lambda", {"objective": "cross_entropy_lambda"})
    case("lightgbm-rank", {"objective": "lambdarank"}, group=50)
    case("lightgbm-dart", {"objective": "binary", "boosting": "dart"}, classes=2, missing=True)
    case("lightgbm-version-2", {"objective": "regression"}, zeros=True, edit=as_version_2)


# CatBoost

def without_history(j):
    """Takes weights, the history of the training and the date out of a model: they are no part of a prediction."""
    for tree in j.get("oblivious_trees", []):
        tree.pop("leaf_weights", None)
    for key in ["training", "output_options", "train_finish_time", "model_guid", "ctr_params"]:
        j["model_info"].pop(key, None)
    j["model_info"]["params"] = {k: v for k, v in j["model_info"]["params"].items() if k == "loss_function"}
    j.pop("ctr_data", None)
    return j


def catboost_case(folder, large, name, params, classes=0, missing=False, positive=False, nan_in=(), weights=None):
    import catboost
    c = Case(name, large, classes=classes)
    for f in nan_in:
        c.x[c.rng.random(len(c.x)) < 0.1, f] = np.nan
    y = np.exp(np.clip(c.y, -3, 3)) if positive else c.y
    defaults = {"random_seed": 7, "thread_count": 1, "verbose": 0, "allow_writing_files": False, "depth": 6, "iterations": 12}
    if large:
        defaults |= {"iterations": 500, "learning_rate": 0.1}
    model = catboost.CatBoost({**defaults, **params})
    model.fit(catboost.Pool(c.x, y))
    path = os.path.join(folder, "model.tmp")
    model.save_model(path, format="json")
    with open(path) as f:
        j = json.load(f)
    os.unlink(path)
    text = json.dumps(without_history(j)).encode()
    rows = c.rows([f["borders"] or [] for f in j["features_info"]["float_features"]], nan_in=set(nan_in))
    margins = model.predict(rows, prediction_type="RawFormulaVal", thread_count=1)
    loss = params["loss_function"]
    outputs = margins
    if classes:
        outputs = model.predict(rows, prediction_type="Probability", thread_count=1)
        if loss == "Logloss":
            outputs = outputs[:, 1]
    elif loss in ("Poisson", "Tweedie"):
        outputs = model.predict(rows, prediction_type="Exponent", thread_count=1)
    c.store(folder, text, rows, np.asarray(margins), np.asarray(outputs), "catboost " + catboost.__version__)


def catboost_cases(folder, large):
    def case(*args, **kwargs):
        catboost_case(folder, large, *args, **kwargs)
    case("catboost-regression", {"loss_function": "RMSE"})
    case("catboost-binary", {"loss_function": "Logloss"}, classes=2, nan_in=[0, 2])
    case("catboost-multiclass", {"loss_function": "MultiClass", "depth": 4}, classes=4)
    case("catboost-one-vs-all", {"loss_function": "MultiClassOneVsAll", "depth": 4}, classes=3)
    case("catboost-nan-max", {"loss_function": "MAE", "nan_mode": "Max"}, nan_in=[0, 1, 3])
    case("catboost-poisson", {"loss_function": "Poisson"}, positive=True)
    case("catboost-leafwise", {"loss_function": "RMSE", "grow_policy": "Lossguide", "max_leaves": 40, "depth": 12}, nan_in=[1])
    case("catboost-depthwise-multiclass", {"loss_function": "MultiClass", "grow_policy": "Depthwise", "depth": 4}, classes=3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--only", default="", help="a library")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    for name, cases in [("xgboost", xgboost_cases), ("lightgbm", lightgbm_cases), ("catboost", catboost_cases)]:
        if args.only in ("", name):
            cases(args.folder, args.large)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains a small model with every loss that XGBoost, LightGBM and CatBoost can train, and stores each with rows and what the
library's own predict or predict_proba says: the answers that a user compares a server with.

    losses.py FOLDER           writes the golden files of testdata/losses (the committed ones: xgboost 3.2.0, lightgbm 4.7.0,
                               catboost 1.2.10)

The files have the form of train.py's, with the name of the loss in their first line. CatBoost's classifiers are asked for
predict_proba (of two classes: the second's), its regressors and rankers for predict.
"""
import argparse
import json
import os
import warnings

import numpy as np

import train

XGBOOST = {
    "reg:squarederror": "real", "reg:linear": "real", "reg:squaredlogerror": "positive", "reg:logistic": "share", "reg:pseudohubererror": "real",
    "reg:absoluteerror": "real", "reg:quantileerror": "real", "binary:logistic": "binary", "binary:logitraw": "binary",
    "binary:hinge": "binary", "count:poisson": "positive", "survival:cox": "positive", "survival:aft": "interval",
    "multi:softmax": "classes", "multi:softprob": "classes", "rank:pairwise": "rank", "rank:ndcg": "rank", "rank:map": "relevant",
    "reg:gamma": "positive", "reg:tweedie": "positive",
}
LIGHTGBM = {
    "regression": "real", "regression_l1": "real", "huber": "real", "fair": "real", "poisson": "positive", "quantile": "real", "mape": "real",
    "gamma": "positive", "tweedie": "positive", "binary": "binary", "multiclass": "classes", "multiclassova": "classes",
    "cross_entropy": "share", "cross_entropy_lambda": "share", "lambdarank": "rank", "rank_xendcg": "rank", "custom": "real",
}
CATBOOST = {
    "Logloss": "binary", "CrossEntropy": "share", "Focal:focal_alpha=0.5;focal_gamma=2": "binary", "RMSE": "real", "LogCosh": "real",
    "Lq:q=3": "real", "MAE": "real", "Quantile:alpha=0.7": "real", "MultiQuantile:alpha=0.2,0.8": "real", "Expectile:alpha=0.3": "real",
    "LogLinQuantile:alpha=0.5": "positive", "MAPE": "real", "RMSPE": "positive", "Poisson": "positive", "Huber:delta=1": "real",
    "Tweedie:variance_power=1.5": "positive", "Cox": "positive", "SurvivalAft:dist=Normal;scale=1": "interval",
    "MultiClass": "classes", "MultiClassOneVsAll": "classes", "PairLogit": "rank", "PairLogitPairwise": "rank", "YetiRank": "rank",
    "YetiRankPairwise": "rank", "QueryRMSE": "rank", "GroupQuantile:alpha=0.5": "rank", "QuerySoftMax": "rank", "StochasticFilter": "relevant",
    "LambdaMart:metric=NDCG": "rank", "StochasticRank:metric=NDCG": "rank", "MultiRMSE": "two", "MultiRMSEWithMissingValues": "two",
    "MultiLogloss": "two_binary", "MultiCrossEntropy": "two_shares", "RMSEWithUncertainty": "real",
}
GROUP = 10


class Small(train.Case):
    """A case of 400 rows to train with, and 48 to predict."""

    def __init__(self, name, kind, dtype):
        super().__init__(name, False, features=5, dtype=dtype)
        self.x, score = self.x[:400], self.score[:400]
        share = 1 / (1 + np.exp(-score))
        rank = np.clip(np.floor(score - score.min()), 0, 4)
        positive = np.exp(np.clip(score, -2, 2))
        self.y = {
            "real": score, "positive": positive, "share": share, "binary": (score > 0).astype(int), "classes": np.digitize(score, [-1, 1]),
            "rank": rank, "relevant": (rank > 2).astype(int), "interval": np.stack([positive, positive + 1], axis=1),
            "two": np.stack([score, -score / 2], axis=1), "two_binary": np.stack([score > 0, score > 1], axis=1).astype(int),
            "two_shares": np.stack([share, share ** 2], axis=1),
        }[kind]
        self.groups = kind in ("rank", "relevant")

    def rows(self, thresholds, nan_in=(), infinite=False):
        return super().rows(thresholds, nan_in=set(nan_in), infinite=infinite)[56:104]  # 24 plain ones, 24 at thresholds

    def keep(self, folder, loss, model, rows, margins, outputs, library):
        self.loss = loss.split(":")[0] if library.startswith("catboost") else loss
        self.store(folder, model, rows, margins, outputs, library)


def name_of(library, loss):
    return library + "-" + loss.split(":focal")[0].split(":alpha")[0].split(":q=")[0].split(":delta")[0].split(":variance")[0] \
        .split(":dist")[0].split(":metric")[0].replace(":", "-").replace("_", "-").lower()


def xgboost_loss(folder, loss, kind):
    import xgboost as xgb
    c = Small(name_of("xgboost", loss), kind, np.float32)
    y = c.y if kind != "interval" else None
    d = xgb.DMatrix(c.x, y)
    if kind == "interval":
        d.set_float_info("label_lower_bound", c.y[:, 0])
        d.set_float_info("label_upper_bound", c.y[:, 1])
    if c.groups:
        d.set_group([GROUP] * (len(c.x) // GROUP))
    params = {"objective": loss, "max_depth": 3, "seed": 7, "nthread": 1, "eta": 0.3}
    if kind == "classes":
        params["num_class"] = 3
    if loss == "reg:quantileerror":
        params["quantile_alpha"] = [0.2, 0.8]
    booster = xgb.train(params, d, 4)
    model = bytes(booster.save_raw("ubj"))
    booster = xgb.Booster()
    booster.load_model(bytearray(model))
    rows = c.rows(train.xgboost_thresholds(booster, c.features))
    p = xgb.DMatrix(rows)
    c.keep(folder, loss, model, rows, booster.predict(p, output_margin=True), booster.predict(p), "xgboost " + xgb.__version__)


def xgboost_early_stopped(folder):
    """A model whose early stopping chose fewer iterations than it has, with what XGBClassifier.predict_proba says."""
    import xgboost as xgb
    c = Small("xgboost-early-stopped", "binary", np.float32)
    c.best_iteration = True
    noise = c.rng.random(len(c.y)) < 0.2
    model = xgb.XGBClassifier(n_estimators=20, max_depth=4, learning_rate=0.9, random_state=7, n_jobs=1, early_stopping_rounds=3)
    model.fit(c.x[:300], np.where(noise, 1 - c.y, c.y)[:300], eval_set=[(c.x[300:], c.y[300:])], verbose=False)
    booster = model.get_booster()
    assert model.best_iteration + 1 < booster.num_boosted_rounds(), model.best_iteration
    rows = c.rows(train.xgboost_thresholds(booster, c.features))
    c.store(folder, bytes(booster.save_raw("ubj")), rows, model.predict(rows, output_margin=True), model.predict_proba(rows)[:, 1].copy(),
            "xgboost " + xgb.__version__)


def lightgbm_loss(folder, loss, kind):
    import lightgbm as lgb
    c = Small(name_of("lightgbm", loss), kind, np.float64)
    objective = loss
    if loss == "custom":
        def objective(predictions, data):
            return predictions - data.get_label(), np.ones(len(predictions))
    params = {"objective": objective, "seed": 7, "num_threads": 1, "verbose": -1, "deterministic": True, "num_leaves": 6}
    if kind == "classes":
        params["num_class"] = 3
    d = lgb.Dataset(c.x, c.y, group=[GROUP] * (len(c.x) // GROUP) if c.groups else None, params={"verbose": -1})
    booster = lgb.train(params, d, 4)
    model = booster.model_to_string()
    model = model[:model.index("end of trees") + len("end of trees")] + "\n"
    booster = lgb.Booster(model_str=model)
    rows = c.rows([[] for _ in range(c.features)])
    c.keep(folder, loss, model.encode(), rows, booster.predict(rows, num_threads=1, raw_score=True), booster.predict(rows, num_threads=1),
           "lightgbm " + lgb.__version__)


def catboost_loss(folder, loss, kind):
    import catboost
    c = Small(name_of("catboost", loss), kind, np.float32)
    params = {"loss_function": loss, "random_seed": 7, "thread_count": 1, "verbose": 0, "allow_writing_files": False, "depth": 3,
              "iterations": 4}
    classes = [catboost.CatBoostClassifier, catboost.CatBoostRegressor, catboost.CatBoostRanker]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind_of_model in classes:
            try:
                kind_of_model._check_is_compatible_loss(loss)
                break
            except catboost.CatBoostError:
                continue
    model = kind_of_model(**params)
    y = c.y / 4 if c.groups and kind == "rank" else c.y
    if c.groups:
        model.fit(catboost.Pool(c.x, y, group_id=np.repeat(np.arange(len(c.x) // GROUP), GROUP)))
    else:
        model.fit(c.x, y)
    path = os.path.join(folder, "model.tmp")
    model.save_model(path, format="json")
    with open(path) as f:
        j = json.load(f)
    os.unlink(path)
    text = json.dumps(train.without_history(j)).encode()
    rows = c.rows([f["borders"] or [] for f in j["features_info"]["float_features"]])
    margins = model.predict(rows, prediction_type="RawFormulaVal", thread_count=1) if kind_of_model is not catboost.CatBoostRanker \
        else model._predict(rows, "RawFormulaVal", 0, 0, 1, None, "predict")
    if kind_of_model is catboost.CatBoostClassifier:
        outputs = model.predict_proba(rows, thread_count=1)
        if outputs.shape[1] == 2 and margins.ndim == 1:
            outputs = outputs[:, 1]
    else:
        outputs = model.predict(rows, thread_count=1)
    c.keep(folder, loss, text, rows, np.asarray(margins), np.asarray(outputs), "catboost " + catboost.__version__)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--only", default="", help="a library")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    for library, losses, write in [("xgboost", XGBOOST, xgboost_loss), ("lightgbm", LIGHTGBM, lightgbm_loss), ("catboost", CATBOOST, catboost_loss)]:
        if args.only not in ("", library):
            continue
        for loss, kind in losses.items():
            write(args.folder, loss, kind)
    if args.only in ("", "xgboost"):
        xgboost_early_stopped(args.folder)


if __name__ == "__main__":
    main()

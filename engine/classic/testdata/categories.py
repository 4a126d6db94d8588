#!/usr/bin/env python3
"""Trains models on data frames with categories, and stores them with rows by the categories' names and the libraries' predictions.

    categories.py FILE    writes categories.json (the committed one: xgboost 3.2.0, lightgbm 4.7.0, pandas 3.1.1)

"unseen" is in no training data: XGBoost refuses it, which null among its outputs stands for. null among values is a missing one.
"""
import base64
import json
import sys

import lightgbm as lgb
import numpy as np
import pandas as pd
import xgboost as xgb

rng = np.random.default_rng(3)
n = 300
city = rng.choice(["rome", "oslo", "bonn", "lyon"], n)
size = rng.integers(0, 5, n) * 10
x = rng.normal(size=n).round(2)
frame = pd.DataFrame({"x": x, "city": pd.Categorical(city), "size": pd.Categorical(size)})
y = (x + (city == "rome") * 1.5 - (size == 20) * 2 > 0).astype(int)
rows = [(a, c, s) for a in (-0.4, 0.3, 1.1) for c in ("rome", "oslo", "bonn", "lyon", "unseen", None) for s in (0, 10, 20, 30, 40, None)]
asked = pd.DataFrame({"x": [r[0] for r in rows], "city": pd.Categorical([r[1] for r in rows]), "size": pd.Categorical([r[2] for r in rows])})

booster = xgb.train({"objective": "binary:logistic", "max_depth": 4, "max_cat_to_onehot": 2, "seed": 1, "nthread": 1},
                    xgb.DMatrix(frame, y, enable_categorical=True), 5)
light = lgb.train({"objective": "binary", "verbose": -1, "num_leaves": 8, "num_threads": 1, "min_data_per_group": 5, "cat_smooth": 1,
                   "min_data_in_leaf": 5}, lgb.Dataset(frame, y), 5)
seen = asked[asked["city"] != "unseen"].copy()
seen["city"] = seen["city"].cat.remove_unused_categories()
wanted = iter(booster.predict(xgb.DMatrix(seen, enable_categorical=True)).astype(float).tolist())
wanted = [None if r[1] == "unseen" else next(wanted) for r in rows]
with open(sys.argv[1], "w") as f:
    json.dump({
        "x": [r[0] for r in rows], "city": [r[1] for r in rows], "size": [None if r[2] is None else str(r[2]) for r in rows],
        "models": [
            {"name": "xgboost json", "model": base64.b64encode(bytes(booster.save_raw("json"))).decode(), "outputs": wanted},
            {"name": "xgboost ubjson", "model": base64.b64encode(bytes(booster.save_raw("ubj"))).decode(), "outputs": wanted},
            {"name": "lightgbm text", "model": base64.b64encode(light.model_to_string().encode()).decode(), "outputs": light.predict(asked).tolist()},
        ]}, f)
    f.write("\n")

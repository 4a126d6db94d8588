"""Trains weir-iris, the tree model in the binary: the three species of Fisher's iris data
by the sizes of sepals and petals.

    python iris.py OUT

writes OUT/iris.json, the model as XGBoost saves it, and OUT/iris.golden.json, every
tenth row of the data with the probabilities that XGBoost itself gives. It needs
xgboost 3.2.0 and scikit-learn 1.9.1, which carries the data. The seed is fixed: the
same versions give the same bytes.
"""

import json
import pathlib
import sys

import xgboost
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score

NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def main(out):
    rows, species = load_iris(return_X_y=True)
    rows = rows.astype("float32")
    model = xgboost.XGBClassifier(
        n_estimators=12, max_depth=3, learning_rate=0.4, tree_method="exact", random_state=10, n_jobs=1
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=10)
    print("accuracy in 5 folds: %.3f" % cross_val_score(model, rows, species, cv=folds).mean())

    model.fit(rows, species)
    booster = model.get_booster()
    booster.feature_names = NAMES
    (out / "iris.json").write_bytes(bytes(booster.save_raw("json")))

    some = rows[::10]
    scores = booster.inplace_predict(some, validate_features=False)
    golden = {
        "inputs": [{"name": "input", "datatype": "FP32", "shape": list(some.shape), "data": some.tolist()}],
        "outputs": [{"name": "output", "datatype": "FP32", "shape": list(scores.shape), "data": scores.tolist()}],
        "tolerance": 1e-6,
    }
    (out / "iris.golden.json").write_text(json.dumps(golden) + "\n")


main(pathlib.Path(sys.argv[1]))
